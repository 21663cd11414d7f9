"""One connection for all the tasks of a process, with redis-py's asyncio: none blocks it. check_queue.py runs it."""

import asyncio
import itertools
import uuid
from contextlib import asynccontextmanager, suppress

from redis.asyncio import Redis

LEASE = 10_000  # for how long a place in the queue is kept after we last asked, in milliseconds
POLL = 3  # poll after this many seconds anyway: a message may be lost. Well below LEASE


class LockLost(Exception):
    """The hold ended before the work did: another owner may have worked beside us."""


class Locks:
    def __init__(self, port=6379):
        self.db = Redis(port=port, decode_responses=True, single_connection_client=True)
        self.ear = self.db.pubsub()  # a connection of its own, which subscribes again when it has to connect anew
        self.channel = f"locks:{uuid.uuid4()}"  # one for the process, with a number for each request
        self.numbers, self.waiting = itertools.count(), {}

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

    @asynccontextmanager
    async def lock(self, key, ttl):
        """Waits for the lock in the order of arrival, and returns its fencing token. Cancel it at any moment."""
        owner, number, told = str(uuid.uuid4()), str(next(self.numbers)), asyncio.Event()  # a fresh owner for each
        ask = "LOCK.ACQUIRE", key, owner, ttl, "QUEUE", LEASE, "NOTIFY", self.channel, number
        self.waiting[number], fence = told, 0
        try:
            while not fence:
                told.clear()  # before we ask: the message may be faster than the reply
                reply = await self.request(*ask)
                if reply is None:
                    raise TimeoutError("there is no waiting just now: the server is being drained")
                if reply > 0:
                    fence = reply
                else:  # our place in the queue: -1 is next
                    with suppress(TimeoutError):
                        async with asyncio.timeout(POLL):
                            await told.wait()
            yield fence
        finally:
            del self.waiting[number]
            # The one way out, whatever has become of the request: it ends the hold, or gives up the place.
            if not await self.request("LOCK.RELEASE", key, owner) and fence:
                raise LockLost

    def request(self, *words):
        # When the connection breaks redis-py reconnects and retries: same owner, so same place, or same fencing
        # token. Shielded, because a task that is cancelled inside of a command closes the connection, which is not
        # its own.
        return asyncio.shield(self.db.execute_command(*words))
