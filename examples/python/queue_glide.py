"""One connection for all the tasks of a process, with valkey-glide: none of them blocks it. check_queue.py runs it."""

import asyncio
import itertools
import uuid
from contextlib import asynccontextmanager, suppress

from glide import ConnectionError, GlideClient, GlideClientConfiguration, NodeAddress, TimeoutError as NoReply

LEASE = 10_000  # for how long a place in the queue is kept after we last asked, in milliseconds
POLL = 3  # poll after this many seconds anyway: a message may be lost. Well below LEASE


class LockLost(Exception):
    """The hold ended before the work did: another owner may have worked beside us."""


class Locks:
    def __init__(self, port=6379):
        self.port = port
        self.channel = f"locks:{uuid.uuid4()}"  # one for the process, with a number for each request
        self.numbers, self.waiting = itertools.count(), {}

    async def __aenter__(self):
        # The messages come over the same connection, as pushes of RESP3. After a new connection glide subscribes again.
        exact = GlideClientConfiguration.PubSubChannelModes.Exact
        subscriptions = GlideClientConfiguration.PubSubSubscriptions({exact: {self.channel}}, self._hear, None)
        self.db = await GlideClient.create(GlideClientConfiguration(
            [NodeAddress("127.0.0.1", self.port)], pubsub_subscriptions=subscriptions,
            request_timeout=5_000))  # the default of 250 ms is a short time for a busy server
        return self

    async def __aexit__(self, *_):
        await self.db.close()

    def _hear(self, message, _):
        if told := self.waiting.get(message.message.decode()):
            told.set()

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

    async def request(self, *words):
        # A request that has been sent is heard out, also when its task is cancelled.
        request = asyncio.create_task(self._asked_again(words))
        try:
            return await asyncio.shield(request)
        except asyncio.CancelledError:
            await asyncio.wait([request])
            raise

    async def _asked_again(self, words):
        # When the connection breaks glide connects again, but fails the commands that were under way. So retry:
        # same owner, so same place, or same fencing token.
        for pause in 0.02, 0.1, 0.5, 2:
            with suppress(ConnectionError, NoReply):
                return await self.db.custom_command([str(word) for word in words])
            await asyncio.sleep(pause)
        return await self.db.custom_command([str(word) for word in words])
