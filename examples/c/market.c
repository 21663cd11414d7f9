/* The market under a lock, with hiredis. Needs a server with the module (`make run`); PORT says where.
 *
 *   cc market.c -o market -lhiredis */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data. */
#define MARKET "market"
#define LOCK "{market}:lock"
#define BLOCK 10000 /* for how long to wait for the lock, in milliseconds */

/* hiredis reads for ever unless you say otherwise: then say longer than the longest BLOCK. */
static const struct timeval reading = {BLOCK / 1000 + 5, 0};

/* A context is one connection, for one thread: while it waits for a lock it can do nothing else. */
static redisContext *open_connection(void) {
    const char *port = getenv("PORT");
    const struct timeval connecting = {5, 0};
    redisContext *db = redisConnectWithTimeout("127.0.0.1", port ? atoi(port) : 6379, connecting);
    if (db == NULL || db->err) {
        fprintf(stderr, "no server: %s\n", db ? db->errstr : "no memory");
        exit(1);
    }
    redisSetTimeout(db, reading);
    return db;
}

/* Asks, and asks again when the connection breaks: same owner, so same fencing number. A context that has failed, by
 * a read timeout too, answers nothing more until redisReconnect, which forgets the timeout. */
static redisReply *ask(redisContext *db, const char *format, ...) {
    for (int tries = 1;; tries++) {
        va_list args;
        va_start(args, format);
        redisReply *reply = redisvCommand(db, format, args);
        va_end(args);
        if (reply != NULL)
            return reply;
        fprintf(stderr, "  (hiredis: %s)\n", db->errstr);
        if (tries == 5 || redisReconnect(db) != REDIS_OK || redisSetTimeout(db, reading) != REDIS_OK)
            exit(1);
    }
}

/* What an integer reply says; nil is 0, which no fencing number is. Of an error nothing is known: -1. */
static long long number(redisReply *reply) {
    long long value = reply->type == REDIS_REPLY_INTEGER ? reply->integer : reply->type == REDIS_REPLY_NIL ? 0 : -1;
    if (reply->type == REDIS_REPLY_ERROR)
        fprintf(stderr, "  (the server: %s)\n", reply->str);
    freeReplyObject(reply);
    return value;
}

/* A fresh owner for each piece of work, not for each worker. */
static void name_owner(char owner[33]) {
    unsigned char random[16];
    FILE *source = fopen("/dev/urandom", "rb");
    if (source == NULL || fread(random, 1, sizeof random, source) != sizeof random)
        exit(1);
    fclose(source);
    for (int i = 0; i < 16; i++)
        snprintf(owner + 2 * i, 3, "%02x", random[i]);
}

typedef bool work(redisContext *db, const char *owner, void *what);
enum outcome { DONE, NOT_DONE, BUSY, LOST };

/* Runs the work under the lock. LOST: the hold ended before the work did, somebody else may have worked beside us.
 * (Asked twice, RELEASE answers 0 the second time: so this may be a false alarm, but never a missed one.) */
static enum outcome with_lock(redisContext *db, int ttl, work *work, void *what) {
    char owner[33];
    name_owner(owner);
    if (number(ask(db, "LOCK.ACQUIRE %s %s %d BLOCK %d", LOCK, owner, ttl, BLOCK)) <= 0)
        return BUSY;
    bool done = work(db, owner, what);
    if (number(ask(db, "LOCK.RELEASE %s %s", LOCK, owner)) != 1)
        return LOST;
    return done ? DONE : NOT_DONE;
}

struct trade { const char *who, *item; int price; };

/* One command, so all or nothing, and nothing (NOTOWNER) once the lock is lost. It sets new values instead of adding
 * (HINCRBY), because ask() may do it twice. */
static bool sell(redisContext *db, const char *owner, void *what) {
    struct trade *trade = what;
    return number(ask(db, "LOCK.GUARD %s %s HSET %s %s:owner %s %s:price %d", LOCK, owner, MARKET, trade->item,
                      trade->who, trade->item, trade->price)) >= 0;
}

static int field(redisContext *db, const char *name, const char *kind) {
    redisReply *reply = ask(db, "HGET %s %s:%s", MARKET, name, kind);
    int value = reply->type == REDIS_REPLY_STRING ? atoi(reply->str) : 0;
    freeReplyObject(reply);
    return value;
}

static bool buy(redisContext *db, const char *owner, void *what) {
    struct trade *trade = what;
    redisReply *seller = ask(db, "HGET %s %s:owner", MARKET, trade->item);
    int price = field(db, trade->item, "price"), purse = field(db, trade->who, "funds");
    bool can = seller->type == REDIS_REPLY_STRING && price > 0 && price <= purse;
    bool done = can && number(ask(db, "LOCK.GUARD %s %s HSET %s %s:funds %d %s:funds %d %s:owner %s %s:price 0", LOCK,
                                  owner, MARKET, trade->who, purse - price, seller->str,
                                  field(db, seller->str, "funds") + price, trade->item, trade->who, trade->item)) >= 0;
    freeReplyObject(seller);
    return done;
}

/* A job longer than its ttl of 1 second renews between its steps, and stops as soon as that comes too late. */
static bool take_stock(redisContext *db, const char *owner, void *shelves) {
    for (int shelf = 0; shelf < *(int *)shelves; shelf++) {
        usleep(300 * 1000);
        if (number(ask(db, "LOCK.RENEW %s %s 1000", LOCK, owner)) != 1)
            return false;
    }
    return true;
}

/* From here on: the examples at work, and what must come of it. */
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

static bool look_at_the_clock(redisContext *db, const char *owner, void *began) {
    (void)db, (void)owner;
    return time(NULL) - *(time_t *)began >= 5;
}

int main(void) {
    redisContext *db = open_connection(), *operator = open_connection();
    freeReplyObject(ask(db, "DEL %s %s", MARKET, LOCK));
    freeReplyObject(ask(db, "HSET %s ann:funds 0 bob:funds 100", MARKET));

    MUST(with_lock(db, 5000, sell, &(struct trade){"ann", "sword", 80}) == DONE);
    MUST(with_lock(db, 5000, buy, &(struct trade){.who = "bob", .item = "sword"}) == DONE);
    MUST(with_lock(db, 5000, buy, &(struct trade){.who = "bob", .item = "sword"}) == NOT_DONE);
    MUST(field(db, "ann", "funds") == 80 && field(db, "bob", "funds") == 20);
    puts("bob has bought the sword");

    time_t began = time(NULL);
    MUST(number(ask(db, "LOCK.ACQUIRE %s %s 5500", LOCK, "a worker that dies")) > 0);
    MUST(number(ask(db, "LOCK.ACQUIRE %s %s 1000", LOCK, "one that only tries")) == 0);
    MUST(with_lock(db, 5000, look_at_the_clock, &began) == DONE);
    puts("waited for more than 5 seconds");

    MUST(with_lock(db, 1000, take_stock, &(int){5}) == DONE);
    puts("renewed a long job");

    MUST(with_lock(db, 50, come_late, &(struct trade){"bob", "sword", 1}) == LOST && field(db, "sword", "price") == 0);
    puts("a lost lock: the write was refused, and RELEASE said so");

    long long fence = number(ask(db, "LOCK.ACQUIRE %s ann 5000", LOCK));
    freeReplyObject(ask(operator, "CLIENT KILL TYPE normal SKIPME yes"));
    MUST(fence > 0 && number(ask(db, "LOCK.ACQUIRE %s ann 1500", LOCK)) == fence);
    printf("connection broken while holding: the same number %lld\n", fence);

    MUST(number(ask(operator, "LOCK.RELEASE %s ann", LOCK)) == 1);
    MUST(number(ask(operator, "LOCK.ACQUIRE %s ben 1500", LOCK)) > 0);
    redisContext *hasty = open_connection();
    redisSetTimeout(hasty, (struct timeval){1, 0}); /* its first wait breaks off after 1 second, the next is served */
    MUST(number(ask(hasty, "LOCK.ACQUIRE %s ann 5000 BLOCK %d", LOCK, BLOCK)) > fence);
    MUST(number(ask(hasty, "LOCK.RELEASE %s ann", LOCK)) == 1);
    puts("connection broken while waiting: asked again, and served");

    redisFree(db), redisFree(operator), redisFree(hasty);
    return 0;
}
