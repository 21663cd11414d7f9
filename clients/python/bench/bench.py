"""Measures this package beside redis-py's own Lock, of threads and of tasks, on one server:

    python clients/python/bench/bench.py 127.0.0.1:6379

Each figure is the median of the rounds, in which the ways take turns. A pair is an acquire and a release that nothing
else wants, by one connection: by a lock object for each pair, as `with client.lock(...)` has it, and by one for all.
"""

import asyncio
import statistics
import sys
import time

import redis
import redis.asyncio
import redis.asyncio.lock
import redis.lock

import redis_lock_module
import redis_lock_module.asyncio

ROUNDS, PAIRS, TTL = 9, 1500, 30


def of_threads(lock_class, is_reused):
    client = redis.Redis(host=host, port=port)

    def pairs(count):
        one = client.lock("bench", timeout=TTL, lock_class=lock_class)
        for _ in range(count):
            lock = one if is_reused else client.lock("bench", timeout=TTL, lock_class=lock_class)
            assert lock.acquire()
            lock.release()

    return pairs


def of_tasks(lock_class, is_reused):
    async def pairs(count):
        client = redis.asyncio.Redis(host=host, port=port)
        one = client.lock("bench", timeout=TTL, lock_class=lock_class)
        for _ in range(count):
            lock = one if is_reused else client.lock("bench", timeout=TTL, lock_class=lock_class)
            assert await lock.acquire()
            await lock.release()
        await client.aclose()

    return lambda count: asyncio.run(pairs(count))


host, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:6379").split(":")
THEIRS = {of_threads: redis.lock.Lock, of_tasks: redis.asyncio.lock.Lock}
OURS = {of_threads: redis_lock_module.Lock, of_tasks: redis_lock_module.asyncio.Lock}
ways = {(whose, kind, is_reused): kind(classes[kind], is_reused)
        for kind in (of_threads, of_tasks) for is_reused in (False, True)
        for whose, classes in (("ours", OURS), ("redis-py", THEIRS))}
took = {way: [] for way in ways}
for round_ in range(-1, ROUNDS):
    for way, pairs in ways.items() if round_ % 2 else reversed(ways.items()):
        wall, cpu = time.perf_counter(), time.process_time()
        pairs(PAIRS if round_ >= 0 else PAIRS // 10)
        if round_ >= 0:  # the first one warms up
            took[way].append(((time.perf_counter() - wall) / PAIRS * 1e6, (time.process_time() - cpu) / PAIRS * 1e6))

print(f"{'us for a pair: wall, CPU':30}{'redis_lock_module':>20}{'redis-py':>16}{'ratio':>14}")
for kind in (of_threads, of_tasks):
    for is_reused in (False, True):
        ours, theirs = ([statistics.median(one) for one in zip(*took[whose, kind, is_reused])]
                        for whose in ("ours", "redis-py"))
        name = f"{kind.__name__[3:]}, {'one object' if is_reused else 'an object for each'}"
        print(f"{name:30}{ours[0]:12.0f}{ours[1]:8.0f}{theirs[0]:9.0f}{theirs[1]:7.0f}"
              f"{ours[0] / theirs[0]:8.2f}{ours[1] / theirs[1]:6.2f}")
