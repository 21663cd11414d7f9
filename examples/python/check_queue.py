"""What must come of waiting without a blocked connection: `check_queue.py queue_asyncio`, or _glide, or _polling.

PORT says where a server with the module is (`make run` starts one).

python3 -m pip install redis valkey-glide
"""

import asyncio
import importlib
import os
import random
import sys
import time

from redis.asyncio import Redis

way = importlib.import_module(sys.argv[1])
# On a busy machine a task may be late to ask, to work and to release: no place and no hold is to end for that.
Locks, way.LEASE, TTL = way.Locks, 60_000, 600_000
port = int(os.environ.get("PORT", 6379))
LOCK, TASKS = "market:lock", 200
operator = Redis(port=port, decode_responses=True, protocol=3)  # RESP3 has maps


async def eventually(what, condition):
    end = time.monotonic() + 60
    while not await condition():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.005)


async def owners():
    info = await operator.execute_command("LOCK.INFO", LOCK)
    return [waiter["owner"] for waiter in info["waiters"]] if info else []


async def how_many_wait():
    return dict(await operator.execute_command("LOCK.INFO", LOCK, "COUNT", 0))["queue"]


async def nothing_is_left():
    assert await operator.execute_command("LOCK.INFO", LOCK) is None
    assert (await operator.info("lock"))["lock_places"] == 0

    async def memory_is_as_before():
        return not any((await operator.info("lock_memory")).values())
    await eventually("memory as before", memory_is_as_before)


class Market:
    def __init__(self, locks):
        self.locks, self.served, self.inside = locks, [], False

    async def visit(self, number, stay=0.0):
        async with self.locks.lock(LOCK, TTL):
            assert not self.inside
            self.inside = True
            try:
                await asyncio.sleep(stay)
                self.served.append(number)
            finally:
                self.inside = False

    async def fill(self, many):
        """So many wait, behind another owner."""
        await operator.execute_command("LOCK.ACQUIRE", LOCK, "another owner", TTL)
        tasks = []
        for number in range(many):
            tasks.append(asyncio.create_task(self.visit(number)))

            # One after the other: so they come in this order also where each brings a connection of its own.
            async def has_come():
                return await how_many_wait() > number
            await eventually("a place", has_come)
        return tasks

    async def serve(self, tasks):
        await operator.execute_command("LOCK.RELEASE", LOCK, "another owner")
        await asyncio.gather(*tasks)
        assert self.served == list(range(len(tasks)))
        await nothing_is_left()


async def serves_in_order(locks):
    market = Market(locks)
    tasks = await market.fill(TASKS)
    for _ in range(100):  # a connection that is blocked would say nothing until the lock is released
        await asyncio.wait_for(locks.request("PING"), 60)
    assert await how_many_wait() == TASKS
    await operator.config_resetstat()
    began = time.monotonic()
    await market.serve(tasks)
    took = time.monotonic() - began
    asked = (await operator.info("commandstats"))["cmdstat_lock.acquire"]["calls"]
    print(f"{TASKS} tasks waited, and PING was answered; then they were served in order, with {asked} requests")
    if hasattr(locks, "channel"):
        assert asked <= TASKS * (2 + took / way.POLL), asked  # each asks when it is told, and every POLL seconds


async def leaves_nothing_behind(locks):
    market = Market(locks)
    duration, patience = (2, 0.04) if hasattr(locks, "channel") else (20, 0.4)  # those that poll take longer
    cancelled = 0

    async def one():  # cancelled before it waits, while it waits, when it is told, while it works
        nonlocal cancelled
        await asyncio.sleep(random.random() * duration)
        task = asyncio.create_task(market.visit(None, random.random() * 0.004))
        await asyncio.sleep(random.random() * patience)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            cancelled += 1
    await asyncio.gather(*(one() for _ in range(1_000)))
    assert cancelled > 100, cancelled
    await nothing_is_left()
    print(f"of 1000 tasks {cancelled} were cancelled at random moments, and nothing is left of them")


async def keeps_its_places(locks):
    market = Market(locks)
    tasks = await market.fill(50)
    before = await owners()
    for kind in "pubsub", "normal":
        await operator.client_kill_filter(_type=kind, skipme=True)
    await locks.request("PING")
    if channel := getattr(locks, "channel", None):
        async def subscribed():
            return (await operator.pubsub_numsub(channel))[0][1] == 1
        await eventually("subscribed again", subscribed)
    assert await owners() == before
    await market.serve(tasks)
    print("all connections were killed: all kept their places, and were served in order")


async def main():
    await operator.delete(LOCK)
    await operator.config_set("lock.claim-time", way.LEASE)
    async with Locks(port) as locks:
        await serves_in_order(locks)
        await leaves_nothing_behind(locks)
        await keeps_its_places(locks)
    await operator.aclose()


asyncio.run(main())
