"""The market under a lock, with redis-py's asyncio. Needs a server with the module (`make run`); PORT says where."""

import asyncio
import os
import time
import uuid
from contextlib import asynccontextmanager

from redis.asyncio import Redis

# One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
MARKET, LOCK = "market", "{market}:lock"
BLOCK = 10_000  # for how long to wait for the lock, in milliseconds


def connect():
    # As in market.py: read for longer than the longest BLOCK (the default is 5 seconds), and remember that every
    # task that waits for a lock has borrowed one of the pool's 100 connections. Nobody else is held up by it.
    return Redis(port=int(os.environ.get("PORT", 6379)), decode_responses=True, socket_timeout=BLOCK / 1000 + 5)


class LockLost(Exception):
    """The hold ended before the work did: somebody else may have worked beside us."""


async def acquire(db, owner, ttl, *how):
    # When the connection breaks redis-py connects again and sends this again: same owner, so same fencing number.
    return await db.execute_command("LOCK.ACQUIRE", LOCK, owner, ttl, *how)


async def renew(db, owner, ttl, work):
    # A third of the ttl leaves time for two more tries. When it comes too late the work is stopped at its next await;
    # work that never awaits lets nobody renew, and can't be stopped either.
    while True:
        await asyncio.sleep(ttl / 3 / 1000)
        if not await db.execute_command("LOCK.RENEW", LOCK, owner, ttl):
            work.cancel()
            return


@asynccontextmanager
async def lock(db, ttl):
    owner = str(uuid.uuid4())  # a fresh one for each piece of work: two tasks with one owner would both be let in
    if await acquire(db, owner, ttl, "BLOCK", BLOCK) is None:
        raise TimeoutError(f"the market was not free within {BLOCK} ms")
    renewal = asyncio.create_task(renew(db, owner, ttl, asyncio.current_task()))
    try:
        yield owner
    finally:
        renewal.cancel()
        # Sent twice, RELEASE answers 0 the second time: so this may be a false alarm, but never a missed one.
        if not await db.execute_command("LOCK.RELEASE", LOCK, owner):
            raise LockLost


async def write(db, owner, values):
    # One command, so all or nothing, and nothing (NOTOWNER) once the lock is lost. It sets new values instead of
    # adding (HINCRBY), because a client that sends again may do it twice.
    pairs = (part for pair in values.items() for part in pair)
    await db.execute_command("LOCK.GUARD", LOCK, owner, "HSET", MARKET, *pairs)


async def buy(db, buyer, item):
    async with lock(db, ttl=5_000) as owner:
        market = await db.hgetall(MARKET)
        seller, price = market[f"{item}:owner"], int(market[f"{item}:price"])
        purse, till = int(market[f"{buyer}:funds"]), int(market[f"{seller}:funds"])
        if price == 0 or price > purse:
            return False
        await write(db, owner, {
            f"{buyer}:funds": purse - price, f"{seller}:funds": till + price,
            f"{item}:owner": buyer, f"{item}:price": 0,
        })
        return True


async def main():
    db, operator = connect(), connect()
    await db.delete(MARKET, LOCK)
    buyers = [f"buyer{n}" for n in range(20)]
    await db.hset(MARKET, mapping={"ann:funds": 0, "sword:owner": "ann", "sword:price": 80})
    await db.hset(MARKET, mapping={f"{buyer}:funds": 100 for buyer in buyers})

    sold = await asyncio.gather(*(buy(db, buyer, "sword") for buyer in buyers))
    assert sold.count(True) == 1 and await db.hget(MARKET, "ann:funds") == "80"
    print("twenty wanted the sword, and one has bought it")

    await acquire(db, "a worker that dies", 5_500)
    assert await acquire(db, "one that only tries", 1_000) is None
    began = time.monotonic()
    async with lock(db, ttl=1_000):
        assert time.monotonic() - began > 5
        print("waited for longer than the default read timeout")
        await asyncio.sleep(2)
    print("renewed a long job")

    try:
        async with lock(db, ttl=300) as owner:
            await operator.execute_command("LOCK.BREAK", LOCK)
            await asyncio.sleep(10)
        raise AssertionError("the loss was not noticed")
    except LockLost as lost:
        assert isinstance(lost.__context__, asyncio.CancelledError)
    try:
        await write(db, owner, {"ann:funds": 1_000_000})
        raise AssertionError("written without the lock")
    except Exception as refused:
        assert "NOTOWNER" in str(refused)
    print("a lost lock: the work was stopped, and a late write is refused")

    fence = await acquire(db, "ann", 5_000)
    await operator.client_kill_filter(_type="normal", skipme=True)
    assert await acquire(db, "ann", 5_000) == fence
    print("connection broken while holding: the same number", fence)

    await db.hset(MARKET, "sword:price", 90)
    waiting = asyncio.create_task(buy(db, "ann", "sword"))
    waiter = await who_waits(operator)
    await operator.client_kill_filter(_id=waiter)
    assert await who_waits(operator, other_than=waiter)
    await db.execute_command("LOCK.RELEASE", LOCK, "ann")
    assert not await waiting
    print("connection broken while waiting: asked again, and served")
    await db.aclose()
    await operator.aclose()


async def who_waits(db, other_than=None):
    while True:
        for waiter in (await db.execute_command("LOCK.INFO", LOCK))["waiters"]:
            if waiter["client"] != other_than:
                return waiter["client"]
        await asyncio.sleep(0.001)


asyncio.run(main())
