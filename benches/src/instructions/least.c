/* The least that a module can do for a lock: what the server's own calls cost, without queues that are fair to
 * several locks, fencing, rights, deadlocks, sessions or any look at what others do. Not a lock to be used. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef void Ctx, Key, String, Blocked;
typedef int (*Command)(Ctx *, String **, int);
typedef int (*GetApi)(const char *name, void *function);

enum { READ = 1, WRITE = 2, EMPTY = 0, OK = 0, ERR = 1, MOST = 4096 };

#define API(result, name, ...) static result (*name)(__VA_ARGS__)
API(Key *, OpenKey, Ctx *, String *, int);
API(void, CloseKey, Key *);
API(int, KeyType, Key *);
API(char *, StringDMA, Key *, size_t *, int);
API(int, StringSet, Key *, String *);
API(int, DeleteKey, Key *);
API(long long, GetExpire, Key *);
API(int, SetAbsExpire, Key *, long long);
API(long long, Milliseconds, void);
API(const char *, StringPtrLen, const String *, size_t *);
API(int, StringToLongLong, const String *, long long *);
API(void, RetainString, Ctx *, String *);
API(void, FreeString, Ctx *, String *);
API(int, Replicate, Ctx *, const char *, const char *, ...);
API(int, ReplyWithLongLong, Ctx *, long long);
API(int, ReplyWithNull, Ctx *);
API(int, WrongArity, Ctx *);
API(Blocked *, BlockClientOnKeys, Ctx *, Command, Command, void (*)(Ctx *, void *), long long, String **, int, void *);
API(int, UnblockClient, Blocked *, void *);
API(void *, GetBlockedClientPrivateData, Ctx *);
API(int, CreateCommand, Ctx *, const char *, Command, const char *, int, int, int);
API(int, SetModuleAttribs, Ctx *, const char *, int, int);

struct waiter {
    Blocked *client;
    String *owner;
    long long ttl, number;
};

static struct waiter queue[MOST];
static size_t first, waiting;
static long long fence;

static int holds(Key *key, String *owner) {
    size_t has, wants;
    const char *holder = StringDMA(key, &has, READ), *name = StringPtrLen(owner, &wants);
    return has == wants && !memcmp(holder, name, has);
}

/* Makes the lock this owner's, and tells replicas and the append-only file. */
static long long grant(Ctx *ctx, Key *key, String *name, String *owner, long long ttl) {
    char end[24];
    long long at = Milliseconds() + ttl;
    int len = snprintf(end, sizeof end, "%lld", at);
    StringSet(key, owner);
    SetAbsExpire(key, at);
    Replicate(ctx, "SET", "sscb", name, owner, "PXAT", end, (size_t)len);
    return ++fence;
}

/* LEAST.CHECK key owner: how long this owner still holds the lock. */
static int check(Ctx *ctx, String **argv, int argc) {
    if (argc != 3) return WrongArity(ctx);
    Key *key = OpenKey(ctx, argv[1], READ);
    if (key && holds(key, argv[2])) {
        ReplyWithLongLong(ctx, GetExpire(key));
    } else {
        ReplyWithNull(ctx);
    }
    CloseKey(key);
    return OK;
}

static int served(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithLongLong(ctx, ((struct waiter *)GetBlockedClientPrivateData(ctx))->number);
}

/* LEAST.ACQUIRE key owner ttl: the lock, or a wait for it. */
static int acquire(Ctx *ctx, String **argv, int argc) {
    long long ttl;
    if (argc != 4 || StringToLongLong(argv[3], &ttl) != OK) return WrongArity(ctx);
    Key *key = OpenKey(ctx, argv[1], READ | WRITE);
    if (KeyType(key) == EMPTY) {
        ReplyWithLongLong(ctx, grant(ctx, key, argv[1], argv[2], ttl));
    } else if (waiting < MOST) {
        struct waiter *next = &queue[(first + waiting++) % MOST];
        RetainString(NULL, argv[2]);
        next->owner = argv[2], next->ttl = ttl;
        /* On a key, so that the server sends it on when the key's slot leaves. */
        next->client = BlockClientOnKeys(ctx, served, served, NULL, 0, &argv[1], 1, next);
    }
    CloseKey(key);
    return OK;
}

/* LEAST.RELEASE key owner: the lock is the next one's, or free. */
static int release(Ctx *ctx, String **argv, int argc) {
    if (argc != 3) return WrongArity(ctx);
    Key *key = OpenKey(ctx, argv[1], READ | WRITE);
    int held = KeyType(key) != EMPTY && holds(key, argv[2]);
    if (held && waiting) {
        struct waiter *next = &queue[first];
        first = (first + 1) % MOST, waiting--;
        next->number = grant(ctx, key, argv[1], next->owner, next->ttl);
        UnblockClient(next->client, NULL);
        FreeString(NULL, next->owner);
    } else if (held) {
        DeleteKey(key);
        Replicate(ctx, "DEL", "s", argv[1]);
    }
    ReplyWithLongLong(ctx, held);
    CloseKey(key);
    return OK;
}

int RedisModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    GetApi get = (GetApi)*(void **)ctx;
    (void)argv, (void)argc;
#define GET(name) \
    if (get("RedisModule_" #name, &name)) return ERR
    GET(OpenKey);
    GET(CloseKey);
    GET(KeyType);
    GET(StringDMA);
    GET(StringSet);
    GET(DeleteKey);
    GET(GetExpire);
    GET(SetAbsExpire);
    GET(Milliseconds);
    GET(StringPtrLen);
    GET(StringToLongLong);
    GET(RetainString);
    GET(FreeString);
    GET(Replicate);
    GET(ReplyWithLongLong);
    GET(ReplyWithNull);
    GET(WrongArity);
    GET(BlockClientOnKeys);
    GET(UnblockClient);
    GET(GetBlockedClientPrivateData);
    GET(CreateCommand);
    GET(SetModuleAttribs);
    SetModuleAttribs(ctx, "least", 1, 1);
    return CreateCommand(ctx, "least.check", check, "readonly fast", 1, 1, 1) ||
           CreateCommand(ctx, "least.acquire", acquire, "write deny-oom", 1, 1, 1) ||
           CreateCommand(ctx, "least.release", release, "write", 1, 1, 1);
}
