"""An exclusive lock of one key on a server without the module.

The key is the same as with it, its value is the owner, and its expiry the end: so clients with and without the module
exclude each other, and a hold that was taken in one way is released, renewed and guarded in the other.

What has to compare and act in one step does so by a script, which is one round trip. To guard any command at all, it is
done by WATCH and MULTI on a connection of its own.
"""

import time
from typing import Any

from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from ._errors import NotOwner, uses_all_connections
from ._link import Line, Link
from ._options import Spelling, Words
from ._request import Grant, Request

_IF_OWNER = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return nil end
return redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3))
"""

_REPLICAS_TAKE = 1000  # milliseconds at most, as by default with the module


class Plain:
    def __init__(self, link: Link, spelling: Spelling) -> None:
        self.link, self.key, self.replicas = link, spelling.keys[0], spelling.replicas

    async def acquire(self, request: Request) -> Grant | None:
        """Tries once."""
        if not request.waits:
            return await self._try(request)
        self.link.server.waiting[request] = self.key
        try:
            return await self.link.ask_in_turn(request, lambda: self._try(request))
        except ConnectionError as error:
            if not uses_all_connections(error):
                raise
            return None

    async def _try(self, request: Request) -> Grant | None:
        asked = time.monotonic()
        # A reply that was lost, by SET NX or by the module while it was there, may have been a grant.
        if request.left and await self.renew(request.owner, request.ttl):
            return Grant(asked, None)
        words = "SET", self.key, request.owner, "NX", "PX", request.ttl
        try:
            granted = await request.sent(self.link.told_once(lambda line: self._write(line, *words), crowded_for=0))
        except (ConnectionError, TimeoutError) as error:
            if uses_all_connections(error):
                raise
            # With the client's own retries, or its own error: whether it is held is found out then.
            granted = await self.renew(request.owner, request.ttl)
        return Grant(asked, None) if granted else None

    async def _write(self, line: Line, *words: Any) -> Any:
        """What changes the key, and waits for replicas to have that."""
        reply = await line.say(*words)
        if not self.replicas or not reply:
            return reply
        try:
            count = await line.say("WAIT", self.replicas, _REPLICAS_TAKE)
        except ResponseError as error:  # a user, or a server, that may not WAIT
            raise ResponseError(f"NOREPLICAS WAIT is refused: {error}") from error
        if count < self.replicas:
            raise ResponseError(f"NOREPLICAS {count} of {self.replicas} replicas have acknowledged it within "
                                f"{_REPLICAS_TAKE} milliseconds")
        return reply

    # What is done with a hold

    async def release(self, owner: bytes) -> tuple[bool, bool]:
        """Whether it was held, and whether that had to be said again."""
        reply, again = await self._if_owner(owner, "DEL")
        self.link.server.wake_next(self.key)
        return bool(reply), again

    async def renew(self, owner: bytes, ttl: int) -> bool:
        return bool((await self._if_owner(owner, "PEXPIRE", ttl))[0])

    async def remaining(self, owner: bytes) -> int | None:
        """In milliseconds, -1 without expiry, None if another owner holds it."""
        left = (await self._if_owner(owner, "PTTL"))[0]
        return None if left in (None, -2) else max(left, 1) if left >= 0 else -1

    async def guard(self, owner: bytes, command: Words) -> Any:
        return await self.link.told_once(lambda line: self._watch(line, owner, *command))

    async def _if_owner(self, owner: bytes, verb: str, *words: Any) -> tuple[Any, bool]:
        """The reply to a command on the key, None if another owner holds it; and whether that had to be said again."""
        words = "EVAL", _IF_OWNER, 1, self.key, owner, verb, *words
        return await self.link.told(
            lambda line: self._write(line, *words) if verb == "PEXPIRE" else line.say(*words))

    async def _watch(self, line: Line, owner: bytes, *command: Any) -> Any:
        while True:
            line.is_whole = False
            await line.say("WATCH", self.key)
            if await line.say("GET", self.key, raw=True) != owner:
                await line.say("UNWATCH")
                line.is_whole = True
                raise NotOwner
            await line.say("MULTI")
            await line.say(*command)
            replies = await line.say("EXEC")
            line.is_whole = True
            if replies is not None:  # else a client has touched the key: its own holder, which renews it, maybe
                if isinstance(replies[0], Exception):
                    raise replies[0]
                return replies[0]
