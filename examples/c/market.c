/* The market under a lock, with hiredis. check.c beside it runs it. */
#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data. */
#define MARKET "{market}:goods"
#define LOCK "{market}:lock"
#define BLOCK 10000 /* for how long to wait for the lock, in milliseconds */

/* hiredis reads without a timeout unless you set one: make it longer than the longest BLOCK. */
static struct timeval reading = {BLOCK / 1000 + 5, 0};

/* A context is one connection, for one thread: while it waits for a lock it can do nothing else. */
redisContext *open_connection(int port) {
    redisContext *db = redisConnect("127.0.0.1", port);
    if (db == NULL || db->err || redisSetTimeout(db, reading) != REDIS_OK)
        exit(1);
    return db;
}

/* Asks, and retries when the connection breaks: same owner, so same fencing token. NULL: it has given up. A context
 * that has failed, by a read timeout too, answers nothing more until redisReconnect, which forgets the timeout. */
redisReply *ask(redisContext *db, const char *format, ...) {
    for (int tries = 1;; tries++) {
        va_list words;
        va_start(words, format);
        redisReply *reply = redisvCommand(db, format, words);
        va_end(words);
        if (reply != NULL)
            return reply;
        if (redisReconnect(db) != REDIS_OK || redisSetTimeout(db, reading) != REDIS_OK) {
            fprintf(stderr, "hiredis: %s\n", db->errstr);
            exit(1);
        }
        if (tries == 5)
            return NULL;
    }
}

/* What a reply says as a number. Nil is 0, which no fencing token is; an error (NOTOWNER, DEADLOCK ...) is -1,
 * and so is no reply. */
long long number(redisReply *reply) {
    if (reply == NULL)
        return -1;
    long long value = reply->type == REDIS_REPLY_ERROR ? -1 : reply->str ? atoll(reply->str) : reply->integer;
    freeReplyObject(reply);
    return value;
}

typedef bool work(redisContext *db, const char *owner, void *what);
enum outcome { DONE, NOT_DONE, BUSY, LOST };

/* LOST: the hold ended before the work did, another owner may have worked beside us. wait 0: tries once. */
enum outcome with_lock(redisContext *db, int ttl, int wait, work *work, void *what) {
    unsigned long long random[2]; /* a fresh owner for each piece of work, not for each worker */
    char owner[33];
    if (getentropy(random, sizeof random) != 0)
        exit(1);
    snprintf(owner, sizeof owner, "%016llx%016llx", random[0], random[1]);
    redisReply *fence = wait ? ask(db, "LOCK.ACQUIRE %s %s %d BLOCK %d", LOCK, owner, ttl, wait)
                             : ask(db, "LOCK.ACQUIRE %s %s %d", LOCK, owner, ttl);
    bool granted = number(fence) > 0, done = granted && work(db, owner, what);
    /* The one way out, whatever has become of the request: a worker that gives up in the moment of the grant has the
     * lock, and does not know it. Asked twice, RELEASE answers 0 the second time: this may be a false alarm, but never
     * a missed one. */
    bool held = number(ask(db, "LOCK.RELEASE %s %s", LOCK, owner)) == 1;
    return !granted ? BUSY : !held ? LOST : done ? DONE : NOT_DONE;
}

struct trade { const char *who, *item; int price; };

/* All of it or nothing, and nothing (NOTOWNER) once the lock is lost. New values and no differences (HINCRBY), because
 * ask() may ask twice. */
bool sell(redisContext *db, const char *owner, void *what) {
    struct trade *trade = what;
    return number(ask(db, "LOCK.GUARD %s %s HSET %s %s:owner %s %s:price %d", LOCK, owner, MARKET, trade->item,
                      trade->who, trade->item, trade->price)) >= 0;
}

bool buy(redisContext *db, const char *owner, void *what) {
    struct trade *trade = what;
    redisReply *seller = ask(db, "HGET %s %s:owner", MARKET, trade->item);
    long long price = number(ask(db, "HGET %s %s:price", MARKET, trade->item));
    long long purse = number(ask(db, "HGET %s %s:funds", MARKET, trade->who)), till;
    bool done = seller && seller->str && price > 0 && price <= purse &&
                (till = number(ask(db, "HGET %s %s:funds", MARKET, seller->str))) >= 0 &&
                number(ask(db, "LOCK.GUARD %s %s HSET %s %s:funds %lld %s:funds %lld %s:owner %s %s:price 0", LOCK,
                           owner, MARKET, trade->who, purse - price, seller->str, till + price, trade->item,
                           trade->who, trade->item)) >= 0;
    freeReplyObject(seller);
    return done;
}

/* Longer than its ttl of 1000 ms in all: so it renews between its steps, and stops when that comes too late. */
bool take_stock(redisContext *db, const char *owner, void *shelves) {
    for (int shelf = 0; shelf < *(int *)shelves; shelf++) {
        usleep(300 * 1000);
        if (number(ask(db, "LOCK.RENEW %s %s 1000", LOCK, owner)) != 1)
            return false;
    }
    return true;
}
