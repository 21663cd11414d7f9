"""A lock and a client: what is said for it by the module's commands or without them, and what is withdrawn."""

from contextlib import suppress
from typing import Any, Awaitable, Callable, TypeVar, Union

from redis.exceptions import RedisError, ResponseError

from ._errors import ModuleMissingError, is_of_another_type, is_unknown_word, misses_the_module
from ._link import Link
from ._native import Native
from ._options import Spelling, Words
from ._plain import Plain
from ._request import Grant, Request

T = TypeVar("T")
Say = Callable[[Union[Native, Plain]], Awaitable[T]]


class Core:
    def __init__(self, link: Link, spelling: Spelling, queue: bool | None, require_module: bool) -> None:
        self.link, self.spelling = link, spelling
        self._native, self._plain = Native(link, spelling, queue), Plain(link, spelling)
        # What is asked for that only the module can do.
        self._special = spelling.special or ("queue=True" if queue else "require_module=True" if require_module else None)

    async def _either(self, special: str | None, say: Say[T]) -> T:
        server = self.link.server
        if special or not server.is_bare():
            try:
                return await say(self._native)
            except RedisError as error:
                if not misses_the_module(error):
                    raise
                server.misses_the_module()
                if special:
                    raise ModuleMissingError(special, lock_name=self.link.key) from error
        return await say(self._plain)

    async def acquire(self, request: Request) -> Grant | None:
        server = self.link.server
        if request.is_chosen and not await server.withdrawals.end_before(request, self):
            return None
        try:
            while True:
                request.woken.clear()
                grant = await self._either(self._special, lambda way: way.acquire(request))
                if grant or request.is_over():
                    return grant
                await self.link.rest(request.woken, request.for_a_while(request.sleep))
                if request.given_up:
                    return None
        except ResponseError as error:
            if self.spelling.newer and is_unknown_word(error):
                version = await self._version(request)
                if version == "" or version.startswith("1."):
                    raise ModuleMissingError(self.spelling.newer, lock_name=self.link.key, version=version) from error
            raise
        finally:
            server.waiting.pop(request, None)

    async def _version(self, request: Request) -> str:
        """That of the server's module, asked for once; empty if it does not say."""
        server = self.link.server
        if not server.version:
            with suppress(RedisError):
                info = await self.link.ask_in_turn(request, lambda: self.link.ask(("INFO", "lock")))
                server.version = str(info.get("lock_version", ""))
        return server.version

    # What is done with a hold: by methods of the same names, where more is said of it

    async def release(self, owner: bytes) -> tuple[bool, bool]:
        return await self._unless_overwritten((False, False), lambda way: way.release(owner))

    async def renew(self, owner: bytes, ttl: int) -> bool:
        return await self._unless_overwritten(False, lambda way: way.renew(owner, ttl))

    async def remaining(self, owner: bytes) -> int | None:
        return await self._unless_overwritten(None, lambda way: way.remaining(owner))

    async def _unless_overwritten(self, lost: T, say: Say[T]) -> T:
        try:
            return await self._either(self.spelling.special, say)
        except ResponseError as error:
            # Of several, the others may still be held.
            if len(self.spelling.names) > 1 or not is_of_another_type(error):
                raise
            return lost

    async def guard(self, owner: bytes, command: Words) -> Any:
        reply = await self._either(self.spelling.special, lambda way: way.guard(owner, command))
        callback = getattr(self.link.client, "response_callbacks", {}).get(str(command[0]).upper())
        return callback(reply) if callback else reply

    async def locked(self) -> bool:
        for name in self.spelling.names:
            if await self.link.ask(("EXISTS", name)):
                return True
        return False
