"""A job queue: of all jobs a hundred may run, and three of each tenant. One connection for all the jobs of a process.

`in_one_step` asks for both at once, `in_two_steps` waits for the tenant's share first. check_job_queue.py runs both;
docs/job-queue.md says what comes of each.
"""

import asyncio
import itertools
import uuid
from contextlib import asynccontextmanager, suppress

from redis.asyncio import Redis

OF_ALL, OF_EACH = 100, 3
TTL = 30_000  # a hold ends so long after it was last renewed, in milliseconds
LEASE = 10_000  # and a place in the queue so long after we last asked
POLL = 3  # ask again after so many seconds all the same: a message may be lost. Well below LEASE


class LockLost(Exception):
    """The hold ended before the job did: too many may have run."""


class Jobs:
    def __init__(self, port=6379):
        self.db = Redis(port=port, decode_responses=True, single_connection_client=True)
        self.ear = self.db.pubsub()  # a connection of its own, which subscribes again when it has to connect anew
        self.channel = f"{{jobs}}:{uuid.uuid4()}"  # one for the process, with a number for each request
        self.numbers, self.waiting = itertools.count(), {}

    @asynccontextmanager
    async def in_one_step(self, tenant):
        """Waits in the queue of all and in the tenant's, from the same moment on."""
        both = "{jobs}:all", f"{{jobs}}:{tenant}"
        async with self.released(both, f"{tenant}:{uuid.uuid4()}") as job:
            fence = await self.turn("LOCK.MACQUIRE", 2, *both, job, TTL, "MODES", OF_ALL, OF_EACH)
            async with self.renewed("LOCK.MRENEW", 2, *both, job):
                yield fence

    @asynccontextmanager
    async def in_two_steps(self, tenant, *most):
        """Waits for a share of the tenant's first, and only with that in the queue of all."""
        both = "{jobs}:all", f"{{jobs}}:{tenant}"
        async with self.released(both, f"{tenant}:{uuid.uuid4()}") as job:
            await self.turn("LOCK.ACQUIRE", both[1], job, TTL, "LIMIT", OF_EACH, *most)
            async with self.renewed("LOCK.RENEW", both[1], job):  # it waits, and holds this meanwhile
                fence = await self.turn("LOCK.ACQUIRE", both[0], job, TTL, "LIMIT", OF_ALL)
            async with self.renewed("LOCK.MRENEW", 2, *both, job):
                yield fence

    @asynccontextmanager
    async def released(self, locks, job):
        """Whatever becomes of the job, this is the one way out: it ends the holds, or gives up the place."""
        ended = False
        try:
            yield job
            ended = True
        finally:
            held = await self.request("LOCK.MRELEASE", len(locks), *locks, job)
            if ended and held < len(locks):
                raise LockLost

    @asynccontextmanager
    async def renewed(self, *renew):
        async def renewing():
            while True:
                await asyncio.sleep(TTL / 3000)
                await self.request(*renew, TTL)
        task = asyncio.create_task(renewing())
        try:
            yield
        finally:
            task.cancel()

    async def turn(self, *ask):
        """Waits in the order of arrival, and gives the fencing number."""
        number, told = str(next(self.numbers)), asyncio.Event()
        self.waiting[number] = told
        try:
            while True:
                told.clear()  # before we ask: the message may be faster than the reply
                reply = await self.request(*ask, "QUEUE", LEASE, "NOTIFY", self.channel, number)
                if reply is None:
                    raise TimeoutError("no job can wait just now: the server is being drained")
                if reply > 0:
                    return reply
                with suppress(TimeoutError):  # our place in the queue: -1 is next
                    async with asyncio.timeout(POLL):
                        await told.wait()
        finally:
            del self.waiting[number]

    def request(self, *words):
        # Shielded, because a task that is cancelled inside of a command closes the connection, which is not its own.
        return asyncio.shield(self.db.execute_command(*words))

    async def __aenter__(self):
        await self.ear.subscribe(self.channel)
        await self.ear.get_message(timeout=None)  # subscribed: now a message finds us
        self.listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_):
        self.listening.cancel()
        await self.ear.aclose()
        await self.db.aclose()

    async def _listen(self):
        async for message in self.ear.listen():
            if message["type"] == "message" and message["data"] in self.waiting:
                self.waiting[message["data"]].set()
