"""The market under a lock, with redis-py. check.py beside it runs it."""

import time
import uuid
from contextlib import contextmanager

from redis import Redis

# One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
MARKET, LOCK = "{market}:goods", "{market}:lock"
BLOCK = 10_000  # for how long to wait for the lock, in milliseconds


class LockLost(Exception):
    """The hold ended before the work did: another owner may have worked beside us."""


def connect(port=6379):
    # redis-py stops reading after 5 seconds, which costs the place in the queue, and retries, up to 10 times: let it
    # read for longer than the longest BLOCK. A worker that waits keeps one of the pool's 100 connections
    # (max_connections) for all that time; when all of them are out no worker can release.
    return Redis(port=port, decode_responses=True, socket_timeout=BLOCK / 1000 + 5)


@contextmanager
def lock(db, ttl, *how):
    owner, fence = str(uuid.uuid4()), None  # a fresh one for each piece of work, not for each worker
    try:
        # When the connection breaks redis-py reconnects and retries: same owner, so same fencing token.
        fence = db.execute_command("LOCK.ACQUIRE", LOCK, owner, ttl, *how)
        if fence is None:
            raise TimeoutError("others have the market")
        yield owner
    finally:
        # The one way out, whatever has become of the request: a worker that gives up in the moment of its grant (Ctrl-C,
        # a read timeout) has the lock, and does not know it.
        # Asked twice, RELEASE answers 0 the second time: this may be a false alarm, but never a missed one.
        if not db.execute_command("LOCK.RELEASE", LOCK, owner) and fence:
            raise LockLost


def write(db, owner, values):
    # All of it or nothing, and nothing (NOTOWNER) once the lock is lost. New values and no differences (HINCRBY),
    # because redis-py may ask twice.
    db.execute_command("LOCK.GUARD", LOCK, owner, "HSET", MARKET, *(part for pair in values.items() for part in pair))


def sell(db, seller, item, price):
    with lock(db, 5_000) as owner:  # tries once
        write(db, owner, {f"{item}:owner": seller, f"{item}:price": price})


def buy(db, buyer, item):
    with lock(db, 5_000, "BLOCK", BLOCK) as owner:  # waits in line
        market = db.hgetall(MARKET)
        seller, price = market[f"{item}:owner"], int(market[f"{item}:price"])
        purse, till = int(market[f"{buyer}:funds"]), int(market[f"{seller}:funds"])
        if price == 0 or price > purse:
            return False
        write(db, owner, {f"{buyer}:funds": purse - price, f"{seller}:funds": till + price,
                          f"{item}:owner": buyer, f"{item}:price": 0})
        return True


def take_stock(db, shelves):
    with lock(db, 1_000, "BLOCK", BLOCK) as owner:
        for _ in range(shelves):
            time.sleep(0.3)  # longer than the ttl in all: so it renews, and stops when that comes too late
            if not db.execute_command("LOCK.RENEW", LOCK, owner, 1_000):
                raise LockLost
