"""What must come of market_asyncio.py. PORT says where a server with the module is (`make run` starts one)."""

import asyncio
import os
import time

from redis import ResponseError

from market_asyncio import LOCK, MARKET, LockLost, buy, connect, lock, sell, take_stock, write

port = int(os.environ.get("PORT", 6379))


def acquire(db, owner, ttl):
    return db.execute_command("LOCK.ACQUIRE", LOCK, owner, ttl)


async def who_waits(db, other_than=None):
    while True:
        for waiter in (await db.execute_command("LOCK.INFO", LOCK))["waiters"]:
            if waiter["client"] != other_than:
                return waiter["client"]
        await asyncio.sleep(0.001)


async def main():
    db, operator = connect(port), connect(port)
    await db.delete(MARKET, LOCK)
    buyers = [f"buyer{n}" for n in range(20)]
    await db.hset(MARKET, mapping={"ann:funds": 0, **{f"{buyer}:funds": 100 for buyer in buyers}})

    await sell(db, "ann", "sword", 80)
    sold = await asyncio.gather(*(buy(db, buyer, "sword") for buyer in buyers))
    assert sold.count(True) == 1 and await db.hget(MARKET, "ann:funds") == "80"
    print("twenty wanted the sword, and one has bought it")

    await acquire(db, "a worker that dies", 5_500)
    try:
        await sell(db, "ann", "shield", 90)
        raise AssertionError("sold under somebody else's lock")
    except TimeoutError:
        print("tried, and did not wait")
    began = time.monotonic()
    assert not await buy(db, "ann", "sword") and time.monotonic() - began > 5
    print("waited for longer than the default read timeout")

    await take_stock(db, shelves=5)
    print("renewed a long job")

    began = time.monotonic()
    try:
        async with lock(db, 300) as owner:
            await operator.execute_command("LOCK.BREAK", LOCK)
            await asyncio.sleep(10)
        raise AssertionError("the loss was not noticed")
    except LockLost as lost:
        assert isinstance(lost.__context__, TimeoutError) and time.monotonic() - began < 5
        assert not asyncio.current_task().cancelling()
    try:
        await write(db, owner, {"ann:funds": 1_000_000})
        raise AssertionError("written without the lock")
    except ResponseError as refused:
        assert "NOTOWNER" in str(refused)
    print("a lost lock: the work was stopped, and a late write is refused")

    fence = await acquire(db, "ann", 5_000)
    await operator.client_kill_filter(_type="normal", skipme=True)
    assert await acquire(db, "ann", 5_000) == fence
    print("connection broken while holding: the same number", fence)

    waiting = asyncio.create_task(buy(db, "ann", "sword"))
    waiter = await who_waits(operator)
    await operator.client_kill_filter(_id=waiter)
    assert await who_waits(operator, other_than=waiter)
    await db.execute_command("LOCK.RELEASE", LOCK, "ann")
    assert not await waiting
    print("connection broken while waiting: asked again, and served")
    await db.aclose()
    await operator.aclose()


asyncio.run(main())
