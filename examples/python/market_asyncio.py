"""The market under a lock, with redis-py's asyncio. check_asyncio.py beside it runs it."""

import asyncio
import uuid
from contextlib import asynccontextmanager

from redis.asyncio import Redis

# One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
MARKET, LOCK = "{market}:goods", "{market}:lock"
BLOCK = 10_000  # for how long to wait for the lock, in milliseconds


class LockLost(Exception):
    """The hold ended before the work did: another owner may have worked beside us."""


def connect(port=6379):
    # As in market.py: read for longer than the longest BLOCK (the default is 5 seconds), and remember that every
    # task that waits has borrowed one of the pool's 100 connections. No other task is held up by it.
    return Redis(port=port, decode_responses=True, socket_timeout=BLOCK / 1000 + 5)


@asynccontextmanager
async def lock(db, ttl, *how):
    owner, fence = str(uuid.uuid4()), None  # a fresh one for each piece of work: with one owner two would be let in
    try:
        # When the connection breaks redis-py reconnects and retries: same owner, so same fencing token.
        fence = await db.execute_command("LOCK.ACQUIRE", LOCK, owner, ttl, *how)
        if fence is None:
            raise TimeoutError("others have the market")
        async with asyncio.timeout(ttl / 1000) as end:  # stops the work, at its next await, when the hold must be over
            renewal = asyncio.create_task(renew(db, owner, ttl, end))
            try:
                yield owner
            finally:
                renewal.cancel()
    finally:
        # The one way out, whatever has become of the request: a task that is cancelled in the moment of its grant has
        # the lock, and does not know it. Shielded, so that another cancellation does not stop it.
        # Asked twice, RELEASE answers 0 the second time: this may be a false alarm, but never a missed one.
        if not await asyncio.shield(db.execute_command("LOCK.RELEASE", LOCK, owner)) and fence:
            raise LockLost


async def renew(db, owner, ttl, end):
    while True:
        await asyncio.sleep(ttl / 3000)  # a third of it, in seconds: that leaves time to retry
        asked = asyncio.get_running_loop().time()
        held = await db.execute_command("LOCK.RENEW", LOCK, owner, ttl)
        end.reschedule(asked + ttl / 1000 if held else asked)


async def write(db, owner, values):
    # All of it or nothing, and nothing (NOTOWNER) once the lock is lost. New values and no differences (HINCRBY),
    # because redis-py may ask twice.
    pairs = (part for pair in values.items() for part in pair)
    await db.execute_command("LOCK.GUARD", LOCK, owner, "HSET", MARKET, *pairs)


async def sell(db, seller, item, price):
    async with lock(db, 5_000) as owner:  # tries once
        await write(db, owner, {f"{item}:owner": seller, f"{item}:price": price})


async def buy(db, buyer, item):
    async with lock(db, 5_000, "BLOCK", BLOCK) as owner:  # waits in line
        market = await db.hgetall(MARKET)
        seller, price = market[f"{item}:owner"], int(market[f"{item}:price"])
        purse, till = int(market[f"{buyer}:funds"]), int(market[f"{seller}:funds"])
        if price == 0 or price > purse:
            return False
        await write(db, owner, {f"{buyer}:funds": purse - price, f"{seller}:funds": till + price,
                                f"{item}:owner": buyer, f"{item}:price": 0})
        return True


async def take_stock(db, shelves):
    async with lock(db, 1_000, "BLOCK", BLOCK):
        await asyncio.sleep(0.3 * shelves)  # longer than the ttl: lock() renews it meanwhile
