"""A lock by the commands of the module. Without it: _plain.py, by methods of the same names."""

import math
import time
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError, RedisClusterException, ResponseError, TimeoutError

from ._errors import ENDS_A_WAIT, MAY_NOT_LISTEN, NotOwner, greatest_lease, says, uses_all_connections
from ._link import Line, Link
from ._options import Spelling, Words, milliseconds
from ._request import ASKS_PER_LEASE, ASKS_PER_SURE_LEASE, LEAST_LEASE, SURE_LEASE, Grant, Request


class _AskAgain(Exception):
    """A wait was ended without saying what has become of it."""


class Native:
    def __init__(self, link: Link, spelling: Spelling, queue: bool | None) -> None:
        self.link, self.spelling, self.queue = link, spelling, queue

    # To acquire

    async def acquire(self, request: Request) -> Grant | None:
        link, room = self.link, self.link.server.blocking
        blocks = not (self.queue or self.queue is None and link.is_single())
        while not request.is_over():
            if not blocks or not room.enter(request, await link.connections()):
                return await self._keep_a_place(request)
            try:
                return await self._block(request)
            except _AskAgain:
                pass
            finally:
                room.leave(request)
            if request.given_up:
                return None
            # The client's own question finds out, with its retries, and wherever the lock is by now.
            grant = await self._try(request)
            if grant:
                return grant
            await link.rest(request.woken, request.for_a_while(request.pause))
        return None if request.given_up else await self._try(request)

    async def _try(self, request: Request) -> Grant | None:
        asked = time.monotonic()
        fence = await request.sent(self._ask(self.spelling.acquire(request.owner, request.ttl)))
        return Grant(asked, fence) if fence else None

    async def _block(self, request: Request) -> Grant | None:
        asked, waits = time.monotonic(), request.remaining()
        # In milliseconds; 0 waits indefinitely, and milliseconds() never returns that.
        block = 0 if waits == math.inf else milliseconds(waits)
        words = self.spelling.acquire(request.owner, request.ttl, "BLOCK", block)

        async def talk(line: Line) -> Any:
            request.blocks = True
            try:
                return await request.sent(line.say(*words, waits=waits))
            finally:
                request.blocks = False

        try:
            fence = await self.link.talk(talk)
        except (ConnectionError, TimeoutError, RedisClusterException) as error:
            if not request.left and not self.link.is_cluster:
                raise  # nothing was sent: no connection is to be had
            raise _AskAgain from error
        except ResponseError as error:
            if says(error, *ENDS_A_WAIT):
                raise _AskAgain from error
            raise
        if fence:
            # It lasts from the grant on: after a wait that is nearly now, else take what can't be too late.
            now = time.monotonic()
            return Grant(now if (now - asked) * 1000 > request.ttl / 10 else asked, fence)
        if not request.is_over():
            raise _AskAgain
        return None

    async def _keep_a_place(self, request: Request) -> Grant | None:
        link, number = self.link, b""
        ear = None if link.is_cluster or link.server.ear.is_deaf else link.server.ear
        since = None  # when the last poll was sent that left it a place
        try:
            while True:
                channel = ear.listen(link) if ear and number else None
                lease = SURE_LEASE if channel else max(LEAST_LEASE, ASKS_PER_LEASE * request.pause)
                most = min(milliseconds(lease), link.server.greatest_lease)
                notify = ("NOTIFY", channel, number) if channel else ()
                words = self.spelling.acquire(request.owner, request.ttl, "QUEUE", most, *notify)
                request.woken.clear()
                if request.given_up:
                    request.woken.set()
                try:
                    reply = await link.ask_in_turn(request, lambda: request.sent(link.ask(words)))
                except ConnectionError as error:
                    if not uses_all_connections(error):
                        raise
                    reply = None
                except ResponseError as error:
                    if ear and channel and says(error, *MAY_NOT_LISTEN):
                        ear.is_deaf = True
                        continue
                    allowed = greatest_lease(error)
                    if allowed and allowed < most:
                        link.server.greatest_lease = allowed
                        continue
                    raise
                if reply and reply > 0:
                    return Grant(await self._began(request, since), reply)
                since = request.asked if reply else since
                if request.is_over():
                    if request.left:
                        await link.ask(self.spelling.release(request.owner))
                        request.left = False
                    return None
                if ear and not number:
                    number = ear.join(request.woken.set)
                    if ear.listen(link):
                        continue  # this time with a message
                pause = most / 1000 / ASKS_PER_SURE_LEASE if channel and reply else request.pause
                await link.rest(request.woken, request.for_a_while(pause))
        finally:
            if ear and number:
                ear.leave(number)

    async def _began(self, request: Request, since: float | None) -> float:
        """When the ttl of a place that was claimed began: if replicas have to acknowledge it, as the server's
        `lock.replicas` may say too, before the last poll."""
        if since is None or self.spelling.replicas == 0:
            return request.asked
        asked = time.monotonic()
        with suppress(ResponseError):
            left = await self.remaining(request.owner)
            if left is not None and left > 0:
                return min(request.asked, asked + left / 1000 - request.seconds)
        return since

    # What is done with a hold

    async def _ask(self, words: Words) -> Any:
        """What waits for replicas has a connection to itself, also where the client has one for all."""
        if self.spelling.replicas:
            return (await self.link.told(lambda line: line.say(*words)))[0]
        return await self.link.ask(words)

    async def release(self, owner: bytes) -> tuple[bool, bool]:
        """Whether all of it was held, and whether that had to be said again because no reply had come."""
        words = self.spelling.release(owner)
        count, again = await self.link.told(lambda line: line.say(*words))
        return count == len(set(self.spelling.keys)), again

    async def renew(self, owner: bytes, ttl: int) -> bool:
        return bool(await self._ask(self.spelling.renew(owner, ttl)) == 1)

    async def remaining(self, owner: bytes) -> int | None:
        """In milliseconds, -1 without expiry, None if it is not held; of several, of that which ends first."""
        lefts = [await self.link.ask(("LOCK.CHECK", name, owner)) for name in self.spelling.names]
        return min((left for left in lefts if left > 0), default=-1) if all(lefts) else None

    async def guard(self, owner: bytes, command: Words) -> Any:
        try:
            return await self.link.told_once(
                lambda line: line.say("LOCK.GUARD", self.spelling.name, owner, *command))
        except ResponseError as error:
            if says(error, "NOTOWNER"):
                raise NotOwner from error
            raise
