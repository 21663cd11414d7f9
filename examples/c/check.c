/* What must come of market.c. PORT says where a server with the module is (`make run` starts one).
 *
 *   apt install libc6-dev gcc libhiredis-dev
 *   cc check.c -o check -lhiredis && ./check */
#include "market.c"
#include <time.h>

static void must(bool true_thing, const char *words) {
    if (!true_thing) {
        fprintf(stderr, "this must be true: %s\n", words);
        exit(1);
    }
}
#define MUST(condition) must(condition, #condition)

static bool come_late(redisContext *db, const char *owner, void *what) {
    usleep(100 * 1000);
    return sell(db, owner, what);
}

static bool at_once(redisContext *db, const char *owner, void *what) {
    (void)db, (void)owner, (void)what;
    return true;
}

static bool is_field(redisContext *db, const char *name, int value) {
    return number(ask(db, "HGET %s %s", MARKET, name)) == value;
}

int main(void) {
    int port = getenv("PORT") ? atoi(getenv("PORT")) : 6379;
    redisContext *db = open_connection(port), *operator = open_connection(port);
    struct trade bob = {.who = "bob", .item = "sword"}, ann = {.who = "ann", .item = "sword"};
    number(ask(db, "DEL %s %s", MARKET, LOCK));
    number(ask(db, "HSET %s ann:funds 0 bob:funds 100", MARKET));

    MUST(with_lock(db, 5000, 0, sell, &(struct trade){"ann", "sword", 80}) == DONE);
    MUST(with_lock(db, 5000, BLOCK, buy, &bob) == DONE);
    MUST(with_lock(db, 5000, BLOCK, buy, &bob) == NOT_DONE);
    MUST(is_field(db, "ann:funds", 80) && is_field(db, "bob:funds", 20));
    puts("bob has bought the sword");

    MUST(number(ask(db, "LOCK.ACQUIRE %s %s 5500", LOCK, "a worker that dies")) > 0);
    MUST(with_lock(db, 5000, 0, sell, &(struct trade){"bob", "sword", 90}) == BUSY);
    puts("tried, and did not wait");
    time_t began = time(NULL);
    MUST(with_lock(db, 5000, BLOCK, buy, &ann) == NOT_DONE && time(NULL) - began >= 5);
    puts("waited for 5 seconds");

    MUST(with_lock(db, 1000, BLOCK, take_stock, &(int){5}) == DONE);
    puts("renewed a long job");

    MUST(with_lock(db, 50, 0, come_late, &(struct trade){"bob", "sword", 1}) == LOST && is_field(db, "sword:price", 0));
    puts("a lost lock: the write was refused, and RELEASE said so");

    long long fence = number(ask(db, "LOCK.ACQUIRE %s ann 5000", LOCK));
    number(ask(operator, "CLIENT KILL TYPE normal SKIPME yes"));
    MUST(fence > 0 && number(ask(db, "LOCK.ACQUIRE %s ann 1500", LOCK)) == fence);
    printf("connection broken while holding: the same number %lld\n", fence);

    MUST(number(ask(operator, "LOCK.RELEASE %s ann", LOCK)) == 1);
    MUST(number(ask(operator, "LOCK.ACQUIRE %s ben 1500", LOCK)) > 0);
    redisContext *hasty = open_connection(port);
    redisSetTimeout(hasty, (struct timeval){1, 0}); /* its first wait breaks off after 1 second, the next is served */
    MUST(number(ask(hasty, "LOCK.ACQUIRE %s ann 5000 BLOCK %d", LOCK, BLOCK)) > fence);
    MUST(number(ask(hasty, "LOCK.RELEASE %s ann", LOCK)) == 1);
    puts("connection broken while waiting: asked again, and served");

    /* Another owner's hold ends at the very moment in which a worker gives up: it reads for so long five times. */
    int given_up = 0;
    for (int round = 0; round < 1000; round++) {
        int moment = 20 + rand() % 40; /* five reads of some milliseconds each, as coarse as the kernel has them */
        MUST(number(ask(operator, "LOCK.ACQUIRE %s %s %d", LOCK, "another owner", moment)) > 0);
        reading = (struct timeval){0, 1000 + rand() % 4000};
        redisSetTimeout(hasty, reading);
        given_up += with_lock(hasty, 60000, BLOCK, at_once, NULL) == BUSY;
        time_t end = time(NULL) + 5;
        while (number(ask(operator, "EXISTS %s", LOCK)) != 0)
            MUST(time(NULL) < end);
    }
    MUST(given_up > 100);
    printf("%d of 1000 gave up about the moment of their grant, and left nothing behind\n", given_up);

    redisFree(db), redisFree(operator), redisFree(hasty);
    return 0;
}
