"""What is said for a lock, in which order, and what follows from the reply; with the module and without it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Awaitable, Callable, Concatenate, ParamSpec, TypeVar

from redis.exceptions import ConnectionError, RedisClusterException, RedisError, ResponseError, TimeoutError

from . import _native, _plain
from ._errors import (ENDS_A_WAIT, IS_ABOUT_SOMETHING_ELSE, MAY_HAVE_CHANGED, MAY_NOT_LISTEN, ModuleMissingError,
                      greatest_lease, is_of_another_type, is_unknown_word, may_not_block, misses_the_module, says,
                      uses_all_connections)
from ._link import Line, Link
from ._options import milliseconds
from ._request import ASKS_PER_LEASE, ASKS_PER_SURE_LEASE, LEAST_LEASE, SURE_LEASE, Grant, Request
from ._server import Ticket
from ._withdrawals import Withdrawal
from ._words import Spelling, Words

P = ParamSpec("P")
T = TypeVar("T")

_AGAIN = object()


class Core:
    """A lock and a client: what its holds and its requests have in common."""

    def __init__(self, link: Link, spelling: Spelling, queue: bool | None, require_module: bool) -> None:
        self.link, self.spelling, self.queue = link, spelling, queue
        # What is asked for that only the module can do.
        self.special = spelling.special or ("queue=True" if queue else "require_module=True" if require_module else None)

    async def _either(self, special: str | None, by_the_module: Callable[P, Awaitable[T]],
                      without: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        server = self.link.server
        if special or not server.is_bare():
            try:
                return await by_the_module(*args, **kwargs)
            except RedisError as error:
                if not misses_the_module(error):
                    raise
                server.misses_the_module()
                if special:
                    raise ModuleMissingError(special, lock_name=self.link.key) from error
        return await without(*args, **kwargs)

    # To acquire

    async def acquire(self, request: Request) -> Grant | None:
        server = self.link.server
        if request.is_chosen and not await self._withdraw_before(request):
            return None
        try:
            while True:
                request.woken.clear()
                grant = await self._either(self.special, self._acquire_by_the_module, self._acquire_without, request)
                if grant or request.is_over():
                    return grant
                await self.link.rest(request, request.for_a_while(request.sleep))
                if request.given_up:
                    return None
        except ResponseError as error:
            if self.spelling.newer and is_unknown_word(error):
                version = await self._version(request)
                if version == "" or version.startswith("1."):
                    raise ModuleMissingError(self.spelling.newer, lock_name=self.link.key, version=version) from error
            raise
        finally:
            server.leave(request)

    async def _version(self, request: Request) -> str:
        """That of the server's module, asked for once; empty if it does not say."""
        server = self.link.server
        if not server.version:
            with suppress(RedisError):
                info = await self.link.ask_in_turn(request, lambda: self.link.ask(("INFO", "lock")))
                server.version = str(info.get("lock_version", ""))
        return server.version

    async def _acquire_without(self, request: Request) -> Grant | None:
        if not request.waits:
            return await self._try_without(request)
        self.link.server.join(request, self.spelling.name)
        try:
            return await self.link.ask_in_turn(request, lambda: self._try_without(request))
        except ConnectionError as error:
            if not uses_all_connections(error):
                raise
            return None

    async def _try_without(self, request: Request) -> Grant | None:
        asked, sent_before = time.monotonic(), request.left

        async def is_held_already() -> bool:
            return await _plain.renew(self.link, self.spelling, request.owner, request.ttl)

        # A reply that was lost, by SET NX or by the module while it was there, may have been a grant.
        if sent_before and await is_held_already():
            return Grant(asked, None)
        request.left = True
        try:
            request.left = await _plain.set_if_free(self.link, self.spelling, request.owner, request.ttl)
        except (ConnectionError, TimeoutError, ResponseError) as error:
            if isinstance(error, ResponseError) or uses_all_connections(error):  # it changes nothing
                request.left = sent_before or says(error, *MAY_HAVE_CHANGED)
                raise
            # With the client's own retries, or its own error: whether it is held is found out then.
            return Grant(asked, None) if await is_held_already() else None
        return Grant(asked, None) if request.left else None

    async def _acquire_by_the_module(self, request: Request) -> Grant | None:
        link, server = self.link, self.link.server
        words = self.spelling.acquire(request.owner, request.ttl)
        while not request.is_over():
            if self.queue or self.queue is None and link.is_single():
                return await self._keep_a_place(request)
            if link.is_async:
                await link.get_ready()
            ticket = Ticket()
            if not server.blocking.enter(ticket, link.connections()):
                return await self._keep_a_place(request)
            try:
                granted = await self._block(request)
            except ResponseError as error:
                if not may_not_block(error):
                    raise
                return await self._keep_a_place(request)
            finally:
                server.blocking.leave(ticket)
            if granted is not _AGAIN:
                answer: Grant | None = granted
                return answer
            if request.given_up:
                return None
            # The wait was ended for us, or there is no waiting just now. The client's own question finds out what has
            # become of it, with its retries, and wherever the lock is by now.
            grant = await self._ask(request, words)
            if grant:
                return grant
            await link.rest(request, request.for_a_while(request.pause))
        return None if request.given_up else await self._ask(request, words)

    async def _ask(self, request: Request, words: Words) -> Grant | None:
        asked, left_before, request.left = time.monotonic(), request.left, True
        try:
            reply = await (self.link.ask_beside(words) if self.spelling.replicas else self.link.ask(words))
        except RedisError as error:
            if isinstance(error, ResponseError) or misses_the_module(error):
                request.left = left_before or says(error, *MAY_HAVE_CHANGED)  # another refusal changes nothing
            raise
        request.left = bool(reply)
        return Grant(asked, reply) if reply else None

    async def _block(self, request: Request) -> Any:
        asked, left_before = time.monotonic(), request.left
        words = self.spelling.acquire(request.owner, request.ttl, "BLOCK", request.block_for())

        async def talk(line: Line) -> Any:
            request.left = request.blocks = True
            try:
                return await line.say(*words, limit=request.listens_for())
            finally:
                request.blocks = False

        try:
            reply = await self.link.talk(talk)
        except (ConnectionError, TimeoutError, RedisClusterException):
            if not request.left and not self.link.is_cluster:
                raise  # nothing was sent: no connection is to be had
            return _AGAIN
        except ResponseError as error:
            request.left = left_before or says(error, *MAY_HAVE_CHANGED)
            if says(error, *ENDS_A_WAIT):
                return _AGAIN
            raise
        request.left = bool(reply)
        if reply:
            # It lasts from the grant on: after a wait that is nearly now, else take what can't be too late.
            now = time.monotonic()
            return Grant(now if (now - asked) * 1000 > request.ttl / 10 else asked, reply)
        return None if request.is_over() else _AGAIN

    async def _keep_a_place(self, request: Request) -> Grant | None:
        link, ear, number = self.link, self.link.ear(), b""
        since = None  # with replicas, the ttl may begin at any time after a reply that was no grant
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
                asked, left_before, request.left = time.monotonic(), request.left, True
                since = since or asked
                try:
                    reply = await link.ask_in_turn(request, lambda: link.ask(words))
                except ConnectionError as error:
                    if not uses_all_connections(error):
                        raise
                    reply, request.left = None, left_before
                except ResponseError as error:
                    request.left = left_before and not says(error, *IS_ABOUT_SOMETHING_ELSE)
                    if ear and channel and says(error, *MAY_NOT_LISTEN):
                        ear.is_deaf, ear = True, None
                        continue
                    allowed = greatest_lease(error)
                    if allowed and allowed < most:
                        link.server.greatest_lease = allowed
                        continue
                    raise
                if reply and reply > 0:
                    return Grant(since if self.spelling.replicas else asked, reply)
                since = asked if reply else since
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
                await link.rest(request, request.for_a_while(pause))
        finally:
            if ear and number:
                ear.leave(number)

    # To give up

    async def withdraw(self, owner: bytes) -> bool:
        """Whether the server has heard of it."""
        try:
            await self.release(owner)
            return True
        except Exception:  # why it has come to this is what counts
            return False

    def withdraw_in_background(self, owner: bytes, until: float) -> None:
        Withdrawal(self, owner, until)

    async def _withdraw_before(self, request: Request) -> bool:
        """The caller has used this owner before, and what is withdrawn of it in the background would be what comes now:
        so it is withdrawn first. False if that is on its way to the server, and may be heard later."""
        known: list[Withdrawal] = []
        is_withdrawn = False
        try:
            while True:
                known += [one for one in list(self.link.server.withdrawals.known)
                          if one not in known and one.is_of(self.spelling.keys, request.owner)]
                for one in known:
                    one.is_called_off = True
                if not any(one.is_busy() for one in known) or request.is_over():
                    break
                await self.link.sleep(request.for_a_while(0.01))
            if known:
                await self.release(request.owner)
            is_withdrawn = not any(one.is_busy() for one in known)
        finally:
            for one in known:
                if is_withdrawn:
                    self.link.server.withdrawals.remove(one)
                one.is_called_off = is_withdrawn  # else what is heard later is withdrawn then
        return is_withdrawn

    # What is done with a hold

    async def release(self, owner: bytes) -> tuple[bool, bool]:
        """Whether all of it was held, and whether that had to be said again because no reply had come."""
        return await self._unless_overwritten((False, False), _native.release, _plain.release, owner)

    async def renew(self, owner: bytes, ttl: int) -> bool:
        return await self._unless_overwritten(False, _native.renew, _plain.renew, owner, ttl)

    async def remaining(self, owner: bytes) -> int | None:
        """In milliseconds, -1 without expiry, None if it is not held; of several, of that which ends first."""
        return await self._unless_overwritten(None, _native.remaining, _plain.remaining, owner)

    async def _unless_overwritten(self, lost: T, by_the_module: Callable[Concatenate[Link, Spelling, P], Awaitable[T]],
                                  without: Callable[Concatenate[Link, Spelling, P], Awaitable[T]],
                                  *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await self._either(self.spelling.special, by_the_module, without, self.link, self.spelling, *args,
                                      **kwargs)
        except ResponseError as error:
            # Of several, the others may still be held.
            if len(self.spelling.names) > 1 or not is_of_another_type(error):
                raise
            return lost

    async def guard(self, owner: bytes, command: Words) -> Any:
        reply = await self._either(self.spelling.special, _native.guard, _plain.guard, self.link, self.spelling, owner,
                                   command)
        callback = getattr(self.link.client, "response_callbacks", {}).get(str(command[0]).upper())
        return callback(reply) if callback else reply

    async def locked(self) -> bool:
        for name in self.spelling.names:
            if await self.link.ask(("EXISTS", name)):
                return True
        return False
