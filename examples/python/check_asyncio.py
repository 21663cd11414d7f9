"""What must come of market_asyncio.py. PORT says where a server with the module is (`make run` starts one).

python3 -m pip install redis
"""

import asyncio
import os
import random
import time

from redis import ResponseError

from market_asyncio import BLOCK, LOCK, MARKET, LockLost, buy, connect, lock, sell, take_stock, write

port = int(os.environ.get("PORT", 6379))


def acquire(db, owner, ttl):
    return db.execute_command("LOCK.ACQUIRE", LOCK, owner, ttl)


def as_map(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


async def who_waits(db, other_than=None):
    while True:
        # Up to redis-py 7, which speaks RESP2, a map is a flat list: the names and the values by turns.
        info = as_map(await db.execute_command("LOCK.INFO", LOCK))
        for waiter in map(as_map, info["waiters"]):
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
        raise AssertionError("sold under another worker's lock")
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

    # Another owner's hold ends at the very moment in which a task is cancelled.
    async def visit():
        async with lock(db, 60_000, "BLOCK", BLOCK):
            await asyncio.sleep(0.002)
    cancelled = 0
    for _ in range(1_000):
        moment = random.randint(1, 6)
        await acquire(operator, "another owner", moment)
        task = asyncio.create_task(visit())
        await asyncio.sleep((moment + random.uniform(-0.5, 1.5)) / 1000)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            cancelled += 1
        end = time.monotonic() + 5
        while await operator.execute_command("LOCK.INFO", LOCK) is not None:
            assert time.monotonic() < end, "a task that was cancelled has left the lock behind"
    assert cancelled > 100, cancelled
    print(cancelled, "of 1000 were cancelled about the moment of their grant, and left nothing behind")
    await db.aclose()
    await operator.aclose()


asyncio.run(main())
