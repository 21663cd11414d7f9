"""A lock object, whatever kind of code has it: its options, and what a task awaits of it, and a thread waits for."""

from __future__ import annotations

import functools
import inspect
import math
import time
from contextlib import suppress
from typing import Any, Callable, Generic, Literal, TypeVar

from redis.exceptions import LockError, RedisError, TimeoutError

from . import _options
from ._core import Core
from ._errors import DEADLOCK, DeadlockError, says
from ._holds import TTL, HoldOperations
from ._mine import Holds, ThreadLocal
from ._options import milliseconds
from ._request import Grant, Request, fresh_owner
from ._state import Life
from ._withdrawals import Withdrawal
from ._words import Names, Spelling

Client = TypeVar("Client")
Event = TypeVar("Event")
Begin = Callable[[Request, Grant], Any]

PATIENCE = 2.0  # for how long a caller that gives up waits for what it gives up, in seconds
_PAUSE = 0.1  # so long after a RELEASE the wait that it ends must have been answered


async def awaited(result: Any) -> Any:
    """That of a method which a subclass may override: a thread's is no coroutine."""
    return await result if inspect.isawaitable(result) else result


@functools.lru_cache(maxsize=256, typed=True)  # many objects are made with the same options
def _checked(name: Names, shared: bool, limit: int | None, max_queue: int | None, replicas: int | None,
             fair: str | None, per: int | None, timeout: Any, sleep: Any, blocking: Any, blocking_timeout: Any,
             thread_local: Any, raise_on_release_error: Any, renew: Any, renew_for: Any, queue: Any,
             require_module: Any, owner_prefix: Any) -> Spelling:
    _options.optional(_options.span, "timeout", timeout)
    _options.pause("sleep", sleep)
    _options.flag("blocking", blocking)
    _options.patience("blocking_timeout", blocking_timeout)
    _options.flag("thread_local", thread_local)
    _options.flag("raise_on_release_error", raise_on_release_error)
    _options.optional(_options.flag, "renew", renew)
    _options.optional(_options.span, "renew_for", renew_for)
    _options.optional(_options.flag, "queue", queue)
    _options.flag("require_module", require_module)
    spelling = Spelling(name, shared, limit, max_queue, replicas, fair, per)
    _options.owner_prefix(owner_prefix, fair)
    return spelling


class LockBase(Generic[Client, Event]):
    """
    redis-py's Lock by the commands of the redis-lock module: waiters stand in a queue in the server, and are served in
    order, the moment the lock is free. Without the module it is an exclusive lock by SET NX, which waits by asking.

    Made by ``client.lock(name, ..., lock_class=Lock)``, or by itself, which takes more options:

    ``name``: of the lock, or a list of names, which are all held together or not at all.

    ``timeout``: for how many seconds it is held at most, unless it is extended or renewed. With None it expires after
    ``Lock.ttl`` (30) seconds, and is renewed until it is released, or until its thread or process is gone.

    ``blocking``, ``blocking_timeout``: whether, and for how many seconds at most, to wait; None waits indefinitely, and 0
    tries once. If the server does not answer by then, TimeoutError follows soon after.

    ``sleep``: the seconds between two tries, where the client has to poll.

    ``thread_local``: by default a thread knows of its own holds only. With False threads share the object, each with a
    hold of its own; and one thread may release what another one has acquired. Tasks may share it in either case.

    ``raise_on_release_error``: whether ``with`` raises if the lock was lost while it was held; else it logs that.

    ``shared``: shares the lock with others who also share it. ``limit``: shares it while fewer than so many others do.

    ``renew``: renews the hold in the background, at a third of ``timeout``; ``renew_for`` so many seconds at most. If a
    task's hold that is renewed is lost, the task inside of ``async with`` is cancelled, and LockNotOwnedError comes out.

    ``on_lost``: called when the hold is found to be lost; for threads, in a thread of its own.

    ``queue``: waits without a connection of its own: it keeps a place in the queue, and gets a message at its turn. By
    default that is done where the client has a single connection, and where half of the pool's connections wait already.

    ``require_module``: raises ModuleMissingError on a server without the module.

    ``max_queue``: does not wait behind so many others or more, but raises ResponseError (``QUEUEFULL``) at once.

    ``replicas``: acquired, and renewed, only if so many replicas have acknowledged it; otherwise ResponseError
    (``NOREPLICAS``). Without the module by WAIT, for a second at most. None is what the server's ``lock.replicas`` says.

    ``fair``: with ``limit``, the group of the request (a tenant, say): the group that holds the fewest is served next. It
    precedes the owner. ``per``: and a group holds at most so many.

    ``owner_prefix``: what an owner begins with, before its uuid: by default the host's name and the process id.

    ``with lock as hold`` and ``hold = lock.hold()`` (``async with``, ``await``) give a Hold, with the fencing token and
    with methods of its own. As a decorator a lock is held during each call of a function.
    """

    ttl = TTL

    _link_class: Any
    _hold_class: Any
    do_acquire: Any
    do_release: Any
    _ours: dict[str, Any]  # methods as they are here, and not in a subclass

    def __init__(self, redis: Client, name: Names, timeout: float | None = None, sleep: float = 0.1,
                 blocking: bool = True, blocking_timeout: float | None = None, thread_local: bool = True,
                 raise_on_release_error: bool = True, *, shared: bool = False, limit: int | None = None,
                 renew: bool | None = None, renew_for: float | None = None,
                 on_lost: Callable[[], object] | None = None, queue: bool | None = None, require_module: bool = False,
                 max_queue: int | None = None, owner_prefix: str | None = None, replicas: int | None = None,
                 fair: str | None = None, per: int | None = None) -> None:
        # Not theirs: it would register scripts.
        self._link = self._link_class(redis, name)
        _options.function("on_lost", on_lost)
        options: Any = (name, shared, limit, max_queue, replicas, fair, per, timeout, sleep, blocking,
                        blocking_timeout, thread_local, raise_on_release_error, renew, renew_for, queue,
                        require_module, owner_prefix)
        spelling = None
        with suppress(TypeError):  # of a list, which has no hash; or of nonsense, which is refused in words below
            spelling = _checked(*options)
        spelling = spelling or _checked.__wrapped__(*options)
        self._link.key = spelling.name
        self._core = Core(self._link, spelling, queue, require_module)
        self.redis: Any = redis
        self.name: Any = name
        self.timeout, self.sleep = timeout, sleep
        self.blocking, self.blocking_timeout = blocking, blocking_timeout
        self.thread_local, self.raise_on_release_error = thread_local, raise_on_release_error
        self.renew, self.renew_for, self.on_lost = renew, renew_for, on_lost
        self.queue, self.owner_prefix = queue, owner_prefix
        self.local: Any = (ThreadLocal if thread_local else Holds)(self._link)

    def register_scripts(self) -> None:
        """Needs none."""

    @property
    def held(self) -> bool:
        """Whether a hold of this thread or task is held, as far as that is known without asking the server."""
        hold = self._mine()
        return hold is not None and bool(hold.held)

    @property
    def fence(self) -> int | None:
        """The fencing token of the hold, for what it protects; None while nothing is held, and without the module."""
        hold = self._mine()
        fence: int | None = hold.fence if hold else None
        return fence

    @property
    def lost(self) -> Event:
        """An event, which is set when the hold of this thread or task is found to be lost; one that is released before is
        not. Taken while nothing is held, it is that of the hold that comes."""
        hold = self._mine()
        event: Event = hold.lost if hold else self.local.event_while_nothing_is_held()
        return event

    def _is_ours(self, method: str) -> bool:
        return getattr(type(self), method) is self._ours[method]

    # Its holds

    def _held_for(self) -> float:
        return _options.span("timeout", self.ttl if self.timeout is None else self.timeout)

    def _new_hold(self, request: Request, grant: Grant, event: Any = None) -> Any:
        # Only an owner that the caller has chosen can be granted the lock again.
        latest = (self._core.link.server.granted(self._core.spelling.keys, request.owner, grant.fence)
                  if request.is_chosen else None)
        renews = self.timeout is None if self.renew is None else self.renew
        life = Life(request.seconds, grant.asked, renews, self.renew_for)
        return self._hold_class(self, request.owner, grant.fence, life, latest, event)

    def _begin(self, request: Request, grant: Grant) -> Any:
        """A hold that this object remembers."""
        holds = self.local
        return holds.add(self._new_hold(request, grant, holds.event_for_a_new_hold()))

    def _begin_by_token(self, token: bytes) -> Any:
        """That was handed over: since when it is held, and how long that lasts, is not known."""
        holds, life = self.local, Life(math.inf, time.monotonic(), False, None)
        return holds.add(self._hold_class(self, token, None, life, None, holds.event_for_a_new_hold()))

    def _mine(self) -> Any:
        holds = self.local
        return holds.pick() if holds.handed_over is None else self._begin_by_token(holds.handed_over)

    def _mine_or_error(self, words: str) -> Any:
        hold = self._mine()
        if hold is None:
            if self.local.are_ambiguous():
                words += " Several hold it by this object: use the hold that `lock.hold()` or `with` returns."
            raise LockError(words, lock_name=self.name)
        return hold

    def _not_acquired(self) -> LockError:
        return LockError("Unable to acquire lock within the time specified", lock_name=self.name)

    # To acquire

    def _request(self, sleep: float | None, blocking: bool | None, blocking_timeout: float | None, token: Any) -> Request:
        blocking = self.blocking if blocking is None else _options.flag("blocking", blocking)
        patience = _options.patience(
            "blocking_timeout", self.blocking_timeout if blocking_timeout is None else blocking_timeout)
        owner = (fresh_owner(self.owner_prefix) if token is None
                 else _options.owner(self.redis.get_encoder().encode(token)))
        owner = _options.owner(self._core.spelling.of_its_group(owner))
        return Request(owner, token is not None, self._held_for(),
                       _options.pause("sleep", self.sleep if sleep is None else sleep), patience if blocking else 0,
                       self._link.new_bell())

    async def _acquire_by_the_rules(self, request: Request) -> bool:
        """A class that overrides `do_acquire` is asked by it, as by redis-py."""
        if self._is_ours("do_acquire"):
            return await self._acquire(request, self._begin) is not None
        while not await awaited(self.do_acquire(request.owner)):
            if request.is_over():
                return False
            await self._link.sleep(request.for_a_while(request.pause))
        return True

    async def _hold(self, request: Request) -> Any:
        hold = await self._acquire(request, self._new_hold)
        if hold is None:
            raise self._not_acquired()
        return hold

    async def _acquire(self, request: Request, begin: Begin) -> Any:
        try:
            grant = await self._ask(request)
            return begin(request, grant) if grant else None
        except BaseException as error:
            await self._give_up(request, error)
            if says(error, *DEADLOCK):
                raise DeadlockError(str(error), lock_name=self.name) from error
            raise

    async def _ask(self, request: Request) -> Grant | None:
        """What is asked in the background is not interrupted in the middle of a reply, and can be left alone."""
        link, work = self._link, self._core.acquire(request)
        if request.replies_until is None and link.may_be_interrupted:
            return await work
        link.begin(request, work)
        # The loop may have been held up, and have the reply.
        if not await link.wait(request.asking, request.listens_for()) and not await link.wait(request.asking, _PAUSE):
            raise TimeoutError("no reply in time")
        grant: Grant | None = request.asking.result()
        return grant

    # To give up

    async def _give_up(self, request: Request, error: BaseException) -> None:
        """Leaves nothing behind."""
        core, is_told, asking = self._core, isinstance(error, RedisError), request.asking
        hold = self.local.of(request.owner) if request.left else None
        if hold:
            hold._forget()
        if asking is not None and not (asking.done() and is_told):
            withdrawal = Withdrawal(core, request.owner, request.may_be_left_until(), request)
            request.give_up()
            await self._link.leave(self._end, request, withdrawal, waits=not is_told)
        # Twice: what was said last by a connection that is closed now may be read after the first of them. But a client
        # that has an error has tried for long enough: the caller has the error now.
        elif request.left and (is_told or not (await core.withdraw(request.owner) and await core.withdraw(request.owner))):
            core.withdraw_in_background(request.owner, request.may_be_left_until())

    async def _end(self, request: Request, withdrawal: Withdrawal) -> None:
        """What is under way; the rest goes on in the background."""
        until = time.monotonic() + PATIENCE
        while not request.asking.done() and time.monotonic() < until:
            if request.blocks:
                await self._core.withdraw(request.owner)
            await self._link.wait(request.asking, _PAUSE)
        if request.asking.cancel():
            await self._link.wait(request.asking, PATIENCE)
        await withdrawal.has_ended()

    async def _release(self, hold: Any) -> None:
        hold._release_begins()
        await self._link.see_through(hold._release_by(
            hold._do_release if self._is_ours("do_release") else lambda: awaited(self.do_release(hold._token))))


class LockOperations(LockBase[Client, Event]):
    """What is done with a lock, as a task does it; what a thread does is made of this."""

    async def do_acquire(self, token: Any) -> bool:
        """Tries once. A class that overrides it is asked every ``sleep`` seconds, as by redis-py."""
        return await self._acquire(self._request(None, False, None, token), self._begin) is not None

    async def release(self) -> None:
        """Ends the hold of this thread or task. Whatever becomes of it, it is not renewed any more; a task that is
        cancelled sees it through."""
        await self._release(self._mine_or_error("Cannot release a lock that's not owned or is already unlocked."))

    async def do_release(self, expected_token: Any) -> None:
        token = self.redis.get_encoder().encode(expected_token)
        await (self.local.of(token) or self._begin_by_token(token))._do_release()

    async def locked(self) -> bool:
        """Whether it is held, by any owner; of several, any of them."""
        return await self._core.locked()

    async def owned(self) -> bool:
        """Whether this thread or task holds it; of several, all of them."""
        hold = self._mine()
        return hold is not None and await HoldOperations.owned(hold)

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Adds so many seconds to those that are left; with ``replace_ttl`` it lasts for so many from now on."""
        self._mine_or_error("Cannot extend an unlocked lock")._timeout_or_error("extend")
        await awaited(self.do_extend(additional_time, replace_ttl))
        return True

    async def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        await self._mine_or_error("Cannot extend an unlocked lock")._do_extend(additional_time, replace_ttl)
        return True

    async def reacquire(self) -> Literal[True]:
        """From now on it lasts for ``timeout`` seconds again."""
        self._mine_or_error("Cannot reacquire an unlocked lock")._timeout_or_error("reacquire")
        await awaited(self.do_reacquire())
        return True

    async def do_reacquire(self) -> Literal[True]:
        hold = self._mine_or_error("Cannot reacquire an unlocked lock")
        await hold._do_renew(milliseconds(self._held_for()), "reacquire")
        return True

    async def guard(self, *command: Any) -> Any:
        """Runs a command only while the server sees that this lock is held, atomically.

        It is sent once: if its connection breaks before the reply, the client's error says so, and it may have run.
        Of several locks, by the first. Raises LockNotOwnedError if it is not held."""
        return await HoldOperations.guard(self._mine_or_error("Cannot guard by an unlocked lock"), *command)
