/* A module that hears of keys that come and go and does nothing about it: what such a module can't avoid to cost. */
#include <stddef.h>

typedef int (*GetApi)(const char *name, void *function);

static int heard(void *ctx, int class, const char *event, void *key) {
    (void)ctx, (void)class, (void)event, (void)key;
    return 0;
}

int RedisModule_OnLoad(void *ctx, void **argv, int argc) {
    enum { GENERIC = 1 << 2, EXPIRED = 1 << 8, EVICTED = 1 << 9, STRING = 1 << 3 };
    GetApi get = (GetApi)*(void **)ctx;
    void (*set_attributes)(void *, const char *, int, int);
    int (*subscribe)(void *, int, int (*)(void *, int, const char *, void *));
    (void)argv;
    if (get("RedisModule_SetModuleAttribs", &set_attributes) || get("RedisModule_SubscribeToKeyspaceEvents", &subscribe))
        return 1;
    set_attributes(ctx, "bare", 1, 1);
    return subscribe(ctx, GENERIC | EXPIRED | EVICTED | (argc > 0 ? STRING : 0), heard);
}
