"""What is said for a lock, in which order, and what follows from the reply; with the module and without it."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Awaitable, Callable, List, Optional, Tuple, TypeVar

from redis.exceptions import (
    ConnectionError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TimeoutError,
)

from . import _plain
from ._ear import Ear
from ._errors import (
    ModuleMissingError,
    NotOwner,
    ends_a_wait,
    is_about_something_else,
    is_not_owner,
    is_of_another_type,
    is_unknown_word,
    lets_nobody_block,
    may_not_listen,
    misses_the_module,
    uses_all_connections,
)
from ._link import Link
from ._options import milliseconds
from ._request import (
    ASKS_PER_LEASE,
    ASKS_PER_SURE_LEASE,
    LEAST_LEASE,
    SURE_LEASE,
    Grant,
    Latest,
    Request,
)
from ._room import Ticket, rooms
from ._withdrawals import Withdrawal
from ._words import Spelling, Words

T = TypeVar("T")


async def with_or_without(link: Link, special: Optional[str], by_the_module: Callable[[], Awaitable[T]],
                          without: Callable[[], Awaitable[T]]) -> T:
    if special or not link.server.is_bare():
        try:
            return await by_the_module()
        except RedisError as error:
            if not misses_the_module(error):
                raise
            link.server.misses_the_module()
            if special:
                raise ModuleMissingError(special, lock_name=link.key) from error
    return await without()


class Core:
    """A lock and a client: what its holds and its requests have in common."""

    def __init__(self, link: Link, spelling: Spelling, queue: Optional[bool], require_module: bool) -> None:
        self.link, self.spelling, self.queue = link, spelling, queue
        # What is asked for that only the module can do.
        self.special = spelling.special or ("queue=True" if queue else "require_module=True" if require_module else None)

    # To acquire

    async def acquire(self, request: Request) -> Optional[Grant]:
        server, waits = self.link.server, not request.is_over()
        if not await self._withdraw_before(request):
            return None

        async def attempt() -> Optional[Grant]:
            return await self._within(request, lambda: self._try_without(request))

        async def without() -> Optional[Grant]:
            if not waits:
                return await attempt()
            server.join(request, self.spelling.name)
            try:
                return await self.link.ask_in_turn(request, attempt)
            except ConnectionError as error:
                if not uses_all_connections(error):
                    raise
                return None

        try:
            while True:
                request.woken.clear()
                grant = await with_or_without(self.link, self.special, lambda: self._acquire_by_the_module(request),
                                              without)
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
                info = await self._within(request, lambda: self.link.ask(("INFO", "lock")))
                server.version = str(info.get("lock_version", ""))
        return server.version

    async def _try_without(self, request: Request) -> Optional[Grant]:
        link, key = self.link, self.spelling.name
        asked = time.monotonic()
        # A reply that was lost, by SET NX or by the module while it was there, may have been a grant.
        if request.left and await _plain.renew(link, key, request.owner, request.ttl):
            return Grant(asked, None)
        sent_before, request.left = request.left, True
        try:
            held = await _plain.set_if_free(link, key, request.owner, request.ttl)
        except ResponseError:
            request.left = sent_before
            raise
        except (ConnectionError, TimeoutError) as error:
            if isinstance(error, ConnectionError) and uses_all_connections(error):
                request.left = sent_before
                raise
            # With the client's own retries, or its own error: whether it is held is found out then.
            if await _plain.renew(link, key, request.owner, request.ttl):
                return Grant(asked, None)
            return None
        request.left = held
        return Grant(asked, None) if held else None

    async def _acquire_by_the_module(self, request: Request) -> Optional[Grant]:
        words = self.spelling.acquire(request.owner, request.ttl)
        waits = not request.is_over()
        while True:
            if not waits or request.is_over():
                return await self._ask(request, words)
            if self.queue or self.queue is None and self.link.is_single():
                return await self._keep_a_place(request)
            await self.link.get_ready()
            ticket, (room, _) = Ticket(), rooms
            if not room.enter(self.link.pool, ticket, self.link.connections()):
                return await self._keep_a_place(request)
            try:
                granted = await self._block(request)
            except ResponseError as error:
                if not lets_nobody_block(error):
                    raise
                return await self._keep_a_place(request)
            finally:
                room.leave(self.link.pool, ticket)
            if granted is not _AGAIN:
                answer: Optional[Grant] = granted
                return answer
            # The wait was ended for us, or there is no waiting just now. The client's own question finds out what has
            # become of it, with its retries, and wherever the lock is by now.
            grant = await self._ask(request, words)
            if grant:
                return grant
            await self.link.rest(request, request.for_a_while(request.pause))

    async def _ask(self, request: Request, words: Words) -> Optional[Grant]:
        asked, left_before, request.left = time.monotonic(), request.left, True
        try:
            reply = await self._within(request, lambda: self.link.ask(words))
        except RedisError as error:
            if isinstance(error, ResponseError) or misses_the_module(error):
                request.left = left_before  # a refusal changes nothing
            raise
        request.left = bool(reply)
        return Grant(asked, reply) if reply else None

    async def _block(self, request: Request) -> Any:
        words = self.spelling.acquire(request.owner, request.ttl, "BLOCK", _block_for(request))
        asked, left_before = time.monotonic(), request.left
        try:
            reply = await self.link.block(request, words)
        except (ConnectionError, TimeoutError, RedisClusterException):
            if not request.left and not self.link.is_cluster:
                raise  # nothing was sent: no connection is to be had
            return _AGAIN
        except ResponseError as error:
            request.left = left_before
            if ends_a_wait(error):
                return _AGAIN
            raise
        request.left = bool(reply)
        if reply:
            # It lasts from the grant on: after a wait that is nearly now, else take what can't be too late.
            now = time.monotonic()
            return Grant(now if (now - asked) * 1000 > request.ttl / 10 else asked, reply)
        return None if request.is_over() else _AGAIN

    async def _keep_a_place(self, request: Request) -> Optional[Grant]:
        ear: Optional[Ear] = self.link.ear()
        if ear is not None and ear.is_deaf:
            ear = None
        number = b""
        try:
            while True:
                channel = ear.listen() if ear and number else None
                lease = SURE_LEASE if channel else max(LEAST_LEASE, ASKS_PER_LEASE * request.pause)
                most = min(milliseconds(lease), self.link.server.greatest_lease)
                notify = ("NOTIFY", channel, number) if channel else ()
                request.woken.clear()
                if request.given_up:
                    request.woken.set()
                asked, left_before, request.left = time.monotonic(), request.left, True
                try:
                    words = self.spelling.acquire(request.owner, request.ttl, "QUEUE", most, *notify)
                    reply = await self.link.ask_in_turn(request, lambda: self._within(
                        request, lambda: self.link.ask(words)))
                except ConnectionError as error:
                    if not uses_all_connections(error):
                        raise
                    reply, request.left = None, left_before
                except ResponseError as error:
                    request.left = left_before and not is_about_something_else(error)
                    if channel and may_not_listen(error):
                        assert ear
                        ear.is_deaf, ear = True, None
                        continue
                    allowed = _greatest_lease(error)
                    if allowed and allowed < most:
                        self.link.server.greatest_lease = allowed
                        continue
                    raise
                if reply and reply > 0:
                    return Grant(asked, reply)
                if request.is_over():
                    if request.left:
                        await self._within(request, lambda: self.link.ask(self.spelling.release(request.owner)))
                        request.left = False
                    return None
                if ear and not number:
                    number = ear.new_number()
                    ear.join(number, request.woken.set)
                    if ear.listen():
                        continue  # this time with a message
                pause = most / 1000 / ASKS_PER_SURE_LEASE if channel and reply else request.pause
                await self.link.rest(request, request.for_a_while(pause))
        finally:
            if ear and number:
                ear.leave(number)

    async def _within(self, request: Request, work: Callable[[], Awaitable[T]]) -> T:
        """What is heard too late may have been a grant."""
        withdrawal = Withdrawal(self, request.owner, request.may_be_left_until())
        return await self.link.within(request, work, withdrawal.wait,
                                      lambda: withdrawal.begin(request.may_be_left_until()))

    # To give up

    async def withdraw(self, owner: bytes) -> bool:
        """Whether the server has heard of it."""
        try:
            await self.release(owner)
            return True
        except Exception:  # why it has come to this is what counts
            return False

    def latest(self, owner: bytes, grant: Grant) -> Latest:
        latest = self.link.server.latest.setdefault((self.spelling.keys, owner), Latest(grant.fence))
        latest.number = grant.fence
        return latest

    def withdraw_in_background(self, owner: bytes, until: float) -> None:
        withdrawal = Withdrawal(self, owner, until)
        self.link.server.withdrawals.append(withdrawal)
        self.link.go_on(withdrawal)

    async def _withdraw_before(self, request: Request) -> bool:
        """The caller has used this owner before, and what is withdrawn of it in the background would be what comes now: so
        it is withdrawn first. False if that is on its way to the server, and may be heard later."""
        known: List[Withdrawal] = []
        is_withdrawn = False
        try:
            while True:
                known += [one for one in list(self.link.server.withdrawals)
                          if one not in known and one.is_of(self.spelling.keys, request.owner)]
                for one in known:
                    one.is_called_off = True
                if not any(one.is_busy for one in known) or request.is_over():
                    break
                await self.link.sleep(request.for_a_while(0.01))
            if known:
                await self._within(request, lambda: self.release(request.owner))
            is_withdrawn = not any(one.is_busy for one in known)
        finally:
            if known and not is_withdrawn:
                for one in known:
                    one.is_called_off = False  # what is heard later is withdrawn then
                self.withdraw_in_background(request.owner, max(one.until for one in known))
        return is_withdrawn

    # What is done with a hold

    async def release(self, owner: bytes) -> Tuple[bool, bool]:
        """Whether all of it was held, and whether that had to be said again because no reply had come."""
        words = self.spelling.release(owner)

        async def by_the_module() -> Tuple[bool, bool]:
            reply, again = await self.link.told(lambda line: line.say(*words))
            return self.spelling.all_released(reply), again

        return await self._unless_overwritten((False, False), with_or_without(
            self.link, self.spelling.special, by_the_module,
            lambda: _plain.release(self.link, self.spelling.name, owner)))

    async def renew(self, owner: bytes, ttl: int) -> bool:
        async def by_the_module() -> bool:
            return bool(await self.link.ask(self.spelling.renew(owner, ttl)) == 1)

        return await self._unless_overwritten(False, with_or_without(
            self.link, self.spelling.special, by_the_module,
            lambda: _plain.renew(self.link, self.spelling.name, owner, ttl)))

    async def remaining(self, owner: bytes) -> Optional[int]:
        """In milliseconds, -1 without expiry, None if it is not held; of several, of that which ends first."""
        async def by_the_module() -> Optional[int]:
            lefts = [await self.link.ask(check) for check in self.spelling.checks(owner)]
            if not all(lefts):
                return None
            return min((left for left in lefts if left > 0), default=-1)

        return await self._unless_overwritten(None, with_or_without(
            self.link, self.spelling.special, by_the_module,
            lambda: _plain.remaining(self.link, self.spelling.name, owner)))

    async def _unless_overwritten(self, lost: T, asking: Awaitable[T]) -> T:
        try:
            return await asking
        except ResponseError as error:
            # Of several, the others may still be held.
            if len(self.spelling.names) > 1 or not is_of_another_type(error):
                raise
            return lost

    async def guard(self, owner: bytes, command: Words) -> Any:
        words = self.spelling.guard(owner, command)

        async def by_the_module() -> Any:
            try:
                return await self.link.told_once(lambda line: line.say(*words))
            except ResponseError as error:
                if is_not_owner(error):
                    raise NotOwner from error
                raise

        reply = await with_or_without(self.link, self.spelling.special, by_the_module,
                                      lambda: _plain.guard(self.link, self.spelling.name, owner, command))
        callback = getattr(self.link.client, "response_callbacks", {}).get(str(command[0]).upper())
        return callback(reply) if callback else reply

    async def locked(self) -> bool:
        for name in self.spelling.names:
            if await self.link.ask(("EXISTS", name)):
                return True
        return False


_AGAIN = object()


def _block_for(request: Request) -> int:
    # BLOCK 0 waits for ever, and milliseconds() never returns that.
    return 0 if request.until is None else milliseconds(request.remaining())


def _greatest_lease(error: ResponseError) -> int:
    text = str(error)
    if "lease must be" not in text:
        return 0
    return max((int(word) for word in text.replace(",", "").split() if word.isdigit()), default=0)
