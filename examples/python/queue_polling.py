"""A new connection for each request, as a web server or a shell script has it. check_queue.py runs it."""

import asyncio
import uuid
from contextlib import asynccontextmanager

from redis.asyncio import Redis

LEASE = 5_000  # for how long a place in the queue is kept after we last asked, in milliseconds


class LockLost(Exception):
    """The hold ended before the work did: another owner may have worked beside us."""


class Locks:
    def __init__(self, port=6379):
        self.port = port

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    @asynccontextmanager
    async def lock(self, key, ttl):
        """Waits for the lock in the order of arrival, and returns its fencing token. Cancel it at any moment."""
        owner = str(uuid.uuid4())  # a fresh one for each: it is all that a request has to know of the one before
        fence = 0
        try:
            while not fence:
                reply = await self.request("LOCK.ACQUIRE", key, owner, ttl, "QUEUE", LEASE)
                if reply is None:
                    raise TimeoutError("there is no waiting just now: the server is being drained")
                if reply > 0:
                    fence = reply
                else:  # its place: -1 is next, and asks often; -100 has time
                    await asyncio.sleep(min(0.02 * -reply, LEASE / 3000))
            yield fence
        finally:
            # The one way out, whatever has become of the request: it ends the hold, or gives up the place.
            if not await self.request("LOCK.RELEASE", key, owner) and fence:
                raise LockLost

    async def request(self, *words):
        # A request that has been sent is heard out, also when its task is cancelled: a RELEASE by another connection
        # might overtake it.
        request = asyncio.create_task(self._once(*words))
        try:
            return await asyncio.shield(request)
        except asyncio.CancelledError:
            await asyncio.wait([request])
            raise

    async def _once(self, *words):
        # RESP2 needs no greeting.
        async with Redis(port=self.port, protocol=2, decode_responses=True, single_connection_client=True) as db:
            return await db.execute_command(*words)
