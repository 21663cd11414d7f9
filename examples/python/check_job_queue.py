"""What must come of job_queue.py, and what comes of the other ways in docs/job-queue.md: the numbers in its tables are
those that are counted here, and the code that it shows must be in job_queue.py.

PORT says where a server with the module is (`make run` starts one).

python3 -m pip install redis
"""

import asyncio
import os
import random
import re
import time
import uuid
from collections import Counter
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import ResponseError

import job_queue
from job_queue import Jobs, LEASE, OF_ALL, OF_EACH, TTL

port = int(os.environ.get("PORT", 6379))
PAGE = (Path(__file__).parent.parent.parent / "docs/job-queue.md").read_text()
operator = Redis(port=port, decode_responses=True, protocol=3)  # RESP3 has maps


async def eventually(what, condition):
    end = time.monotonic() + 20
    while not await condition():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.005)


async def field(tenant, name):
    info = await operator.execute_command("LOCK.INFO", f"{{jobs}}:{tenant}", "COUNT", 0)
    return info[name] if info else 0


def in_one_step_with(*more):
    @asynccontextmanager
    async def way(jobs, tenant):
        both = "{jobs}:all", f"{{jobs}}:{tenant}"
        async with jobs.released(both, str(uuid.uuid4())) as job:
            yield await jobs.turn("LOCK.MACQUIRE", 2, *both, job, TTL, "MODES", OF_ALL, OF_EACH, *more)
    return way


def in_two_steps_with(*more):
    return lambda jobs, tenant: jobs.in_two_steps(tenant, *more)


@asynccontextmanager
async def all_first(jobs, tenant):
    """The two steps in the wrong order."""
    both = "{jobs}:all", f"{{jobs}}:{tenant}"
    async with jobs.released(both, str(uuid.uuid4())) as job:
        await jobs.turn("LOCK.ACQUIRE", both[0], job, TTL, "LIMIT", OF_ALL)
        yield await jobs.turn("LOCK.ACQUIRE", both[1], job, TTL, "LIMIT", OF_EACH)


class Gate:
    """Of each tenant no more ask than may run: those of one process, which is all that it knows of."""

    def __init__(self):
        self.gates = {}

    @asynccontextmanager
    async def __call__(self, jobs, tenant):
        async with self.gates.setdefault(tenant, asyncio.Semaphore(OF_EACH)), jobs.in_one_step(tenant) as fence:
            yield fence


class Crowd:
    """Jobs that go on until they are told to end."""

    def __init__(self):
        self.tasks, self.running, self.refused = [], {}, 0

    def submit(self, way, jobs, tenants):
        for tenant in tenants:
            self.tasks.append(asyncio.create_task(self.work(way, jobs, tenant)))

    async def work(self, way, jobs, tenant):
        try:
            async with way(jobs, tenant):
                over = asyncio.Event()
                self.running.setdefault(tenant, []).append(over)
                await over.wait()
        except ResponseError as error:
            assert str(error).startswith("QUEUEFULL"), error
            self.refused += 1

    def end_one_of(self, tenant):
        self.running[tenant].pop(0).set()

    async def seen(self):
        """How many of Ann's run, and of the others; how many wait for the lock of all, and for Ann's; and were refused."""
        counts = {tenant: len(events) for tenant, events in self.running.items()}
        ann = counts.pop("ann", 0)
        return ann, sum(counts.values()), await field("all", "queue"), await field("ann", "queue"), self.refused

    async def comes_to(self, *expected):
        async def is_so():
            return await self.seen() == expected
        try:
            await eventually("so many run and wait", is_so)
        except AssertionError:
            raise AssertionError(f"{await self.seen()} and not {expected}") from None
        await asyncio.sleep(0.2)
        assert await self.seen() == expected, f"{await self.seen()} and no longer {expected}"

    async def leave(self):
        """All give up at once, those that run and those that wait."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await nothing_is_left()


async def nothing_is_left():
    assert not [key async for key in operator.scan_iter("{jobs}:*")]
    assert (await operator.info("lock"))["lock_places"] == 0


def page_says(*cells):
    line = "| " + " | ".join(str(cell) for cell in cells) + " |"
    print(line)
    assert line in PAGE, "docs/job-queue.md has no such line"


ONE, TWO = Jobs.in_one_step, Jobs.in_two_steps
WITH_FIVE = "MAXQUEUE", 5
TEN, OTHERS = ["ann"] * 10, [f"tenant-{number}" for number in range(29)]
FOUR_EACH = ["ann"] * 4 + [f"tenant-{number}" for number in range(39) for _ in range(4)]


@asynccontextmanager
async def crowd(way, *tenants):
    """So many come, in this order."""
    async with Jobs(port) as jobs:
        crowd = Crowd()
        for more in tenants:
            crowd.submit(way, jobs, more)
        try:
            yield crowd
        finally:
            await crowd.leave()


async def one_tenant_is_full():
    for name, way, seen in (
        ("one step", ONE, (3, 0, 36, 7, 0)),
        ("one step with `MAXQUEUE 5`", in_one_step_with(*WITH_FIVE), (3, 0, 5, 5, 31)),
        ("two steps", TWO, (3, 29, 0, 7, 0)),
        ("two steps with `MAXQUEUE 5` in the first", in_two_steps_with(*WITH_FIVE), (3, 29, 0, 5, 2)),
        ("one step, and each process lets three of a tenant ask", Gate(), (3, 29, 0, 0, 0)),
    ):
        async with crowd(way, TEN, OTHERS) as jobs:
            await jobs.comes_to(*seen)
            page_says(name, *seen)
    async with Jobs(port) as first, Jobs(port) as second:
        jobs = Crowd()
        for process in first, second:
            jobs.submit(Gate(), process, TEN[:5])

        async def six_have_asked():
            return await field("ann", "count") + await field("ann", "queue") == 6
        await eventually("six of Ann's have asked", six_have_asked)
        jobs.submit(ONE, first, OTHERS)
        await jobs.comes_to(3, 0, 32, 3, 0)
        page_says("the same with two processes", 3, 0, 32, 3, 0)
        await jobs.leave()


async def one_after_the_other_ends():
    """In one step the others run when Ann's last has begun."""
    async with crowd(ONE, TEN, OTHERS) as jobs:
        for number in range(1, 8):
            await jobs.comes_to(3, 0, 37 - number, 8 - number, 0)
            jobs.end_one_of("ann")
        await jobs.comes_to(3, 29, 0, 0, 0)
        print("in one step the others began when seven of Ann's had ended")


async def all_are_full():
    for name, way, seen in (
        ("one step", ONE, (3, 0, 157, 1, 0)),
        ("two steps", TWO, (3, 97, 20, 1, 0)),
        ("two steps, that of all first", all_first, (3, 72, 60, 1, 0)),
    ):
        async with crowd(way, FOUR_EACH) as jobs:
            await jobs.comes_to(*seen)
            page_says(name, sum(seen[:2]), await field("all", "count"), seen[2])
    async with crowd(all_first, ["ann"] * 120, OTHERS) as jobs:
        await jobs.comes_to(3, 0, 49, 97, 0)
        assert await field("all", "count") == OF_ALL
        print("that of all first: Ann's held all hundred, and three ran")


async def one_that_wants_all_of_it():
    """It comes in its turn, also where the jobs wait in two steps, and those that come later wait for it."""
    ask = "LOCK.ACQUIRE", "{jobs}:all", "maintenance", TTL, "QUEUE", LEASE
    for way in ONE, TWO:
        async with Jobs(port) as process:
            jobs = Crowd()
            jobs.submit(way, process, ["ann", "ben"])
            await jobs.comes_to(1, 1, 0, 0, 0)
            assert await operator.execute_command(*ask) == -1
            jobs.submit(way, process, ["cid", "ann"])
            await jobs.comes_to(1, 1, 3, 0 if way is TWO else 1, 0)
            jobs.end_one_of("ann")
            jobs.end_one_of("ben")
            await eventually("it has the lock", partial(has, *ask))
            await jobs.comes_to(0, 0, 2, 0 if way is TWO else 1, 0)
            await operator.execute_command("LOCK.RELEASE", "{jobs}:all", "maintenance")
            await jobs.comes_to(1, 1, 0, 0, 0)
            await jobs.leave()
    print("one that wanted the lock of all alone had it in its turn")


async def has(*ask):
    return await operator.execute_command(*ask) > 0


async def never_more_than_may_run(way):
    """A thousand jobs of twelve tenants, short ones, many of which are cancelled; connections are killed meanwhile."""
    running, most, done, cancelled = Counter(), Counter(), 0, 0
    async with Jobs(port) as jobs:
        async def work(tenant):
            nonlocal done
            await asyncio.sleep(random.random() * 2)
            async with way(jobs, tenant):
                for counted in "all", tenant:
                    running[counted] += 1
                    most[counted] = max(most[counted], running[counted])
                try:
                    await asyncio.sleep(random.random() * 0.02)
                    done += 1
                finally:
                    running.subtract(("all", tenant))
        tasks = [asyncio.create_task(work(f"tenant-{number % 12}")) for number in range(1_000)]
        for number, task in enumerate(tasks):
            if number % 4 == 0:
                asyncio.get_running_loop().call_later(random.random() * 3, task.cancel)
        for kind in "pubsub", "normal":
            await asyncio.sleep(0.7)
            await operator.client_kill_filter(_type=kind, skipme=True)
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, asyncio.CancelledError):
                cancelled += 1
            elif outcome is not None:
                raise outcome
        assert done + cancelled >= 1_000 and done >= 750 and cancelled > 20, (done, cancelled)
        of_all = most.pop("all")
        assert of_all <= job_queue.OF_ALL and max(most.values()) <= OF_EACH, (of_all, most)
        # How many ran at once at most is up to the machine, and on a slow one it may be nine and never ten.
        assert of_all > OF_EACH and max(most.values()) == OF_EACH, f"too few came: {of_all}, {most}"
        await nothing_is_left()
    print(f"{way.__name__}: {done} jobs were done, {cancelled} cancelled; no more ran than may, of all and of each tenant")


def the_page():
    source = Path(job_queue.__file__).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
    assert blocks
    for block in blocks:
        assert block.strip() in source, f"docs/job-queue.md shows what is not in job_queue.py:\n{block}"


async def main():
    the_page()
    await one_tenant_is_full()
    await one_after_the_other_ends()
    await all_are_full()
    await one_that_wants_all_of_it()
    job_queue.OF_ALL = 10
    for way in ONE, TWO:
        await never_more_than_may_run(way)
    await operator.aclose()


asyncio.run(main())
