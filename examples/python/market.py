"""The market under a lock, with redis-py. Needs a server with the module (`make run`); PORT says where."""

import os
import threading
import time
import uuid
from contextlib import contextmanager

import redis

# One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
MARKET, LOCK = "market", "{market}:lock"
BLOCK = 10_000  # for how long to wait for the lock, in milliseconds


def connect():
    # redis-py stops reading after 5 seconds (socket_timeout), closes the connection, which loses its place in line,
    # and asks again, up to 10 times: a BLOCK of 10 seconds may last 55. So let it read for longer than the longest
    # BLOCK. Each command borrows a connection from the pool (100 at most, max_connections); one that waits for a lock
    # is out for all that time, and when all are out nobody can release.
    return redis.Redis(port=int(os.environ.get("PORT", 6379)), decode_responses=True, socket_timeout=BLOCK / 1000 + 5)


class LockLost(Exception):
    """The hold ended before the work did: somebody else may have worked beside us."""


def acquire(db, owner, ttl, *how):
    # When the connection breaks redis-py connects again and sends this again: same owner, so same fencing number.
    return db.execute_command("LOCK.ACQUIRE", LOCK, owner, ttl, *how)


@contextmanager
def lock(db, ttl):
    owner = str(uuid.uuid4())  # a fresh one for each piece of work, not for each worker
    if acquire(db, owner, ttl, "BLOCK", BLOCK) is None:
        raise TimeoutError(f"the market was not free within {BLOCK} ms")
    try:
        yield owner
    finally:
        # Sent twice, RELEASE answers 0 the second time: so this may be a false alarm, but never a missed one.
        if not db.execute_command("LOCK.RELEASE", LOCK, owner):
            raise LockLost


def write(db, owner, values):
    # One command, so all or nothing, and nothing (NOTOWNER) once the lock is lost. It sets new values instead of
    # adding (HINCRBY), because a client that sends again may do it twice.
    db.execute_command("LOCK.GUARD", LOCK, owner, "HSET", MARKET, *(part for pair in values.items() for part in pair))


def sell(db, seller, item, price):
    with lock(db, ttl=5_000) as owner:
        if db.hget(MARKET, f"{item}:owner") != seller:
            raise ValueError(f"{seller} has no {item}")
        write(db, owner, {f"{item}:price": price})


def buy(db, buyer, item):
    with lock(db, ttl=5_000) as owner:
        market = db.hgetall(MARKET)
        seller, price = market[f"{item}:owner"], int(market.get(f"{item}:price") or 0)
        purse, till = int(market[f"{buyer}:funds"]), int(market[f"{seller}:funds"])
        if price == 0 or price > purse:
            return False
        write(db, owner, {
            f"{buyer}:funds": purse - price, f"{seller}:funds": till + price,
            f"{item}:owner": buyer, f"{item}:price": 0,
        })
        return True


def take_stock(db, shelves):
    """A job longer than its ttl. It renews between its steps, and stops as soon as that comes too late."""
    with lock(db, ttl=1_000) as owner:
        for _ in range(shelves):
            time.sleep(0.3)
            if not db.execute_command("LOCK.RENEW", LOCK, owner, 1_000):
                raise LockLost


def main():
    db, operator = connect(), connect()
    db.delete(MARKET, LOCK)
    db.hset(MARKET, mapping={"ann:funds": 0, "bob:funds": 100, "sword:owner": "ann"})

    sell(db, "ann", "sword", 80)
    assert buy(db, "bob", "sword") and not buy(db, "bob", "sword")
    assert db.hmget(MARKET, "ann:funds", "bob:funds", "sword:owner") == ["80", "20", "bob"]
    print("bob has bought the sword")

    acquire(db, "a worker that dies", 5_500)
    assert acquire(db, "one that only tries", 1_000) is None
    began = time.monotonic()
    with lock(db, ttl=5_000):
        assert time.monotonic() - began > 5
    print("waited for longer than the default read timeout")

    take_stock(db, shelves=5)
    print("renewed a long job")

    try:
        with lock(db, ttl=50) as owner:
            time.sleep(0.1)
            write(db, owner, {"bob:funds": 1_000_000})
        raise AssertionError("the loss was not noticed")
    except LockLost as lost:
        assert "NOTOWNER" in str(lost.__context__) and db.hget(MARKET, "bob:funds") == "20"
    print("a lost lock: the write was refused, and RELEASE said so")

    fence = acquire(db, "ann", 5_000)
    operator.client_kill_filter(_type="normal", skipme=True)
    assert acquire(db, "ann", 5_000) == fence
    print("connection broken while holding: the same number", fence)

    thread = threading.Thread(target=sell, args=(db, "bob", "sword", 90))
    thread.start()
    waiter = who_waits(operator)
    operator.client_kill_filter(_id=waiter)
    assert who_waits(operator, other_than=waiter)
    db.execute_command("LOCK.RELEASE", LOCK, "ann")
    thread.join()
    assert db.hget(MARKET, "sword:price") == "90"
    print("connection broken while waiting: asked again, and served")


def who_waits(db, other_than=None):
    while True:
        for waiter in db.execute_command("LOCK.INFO", LOCK)["waiters"]:
            if waiter["client"] != other_than:
                return waiter["client"]
        time.sleep(0.001)


main()
