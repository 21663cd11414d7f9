"""A lock object, whatever kind of code has it: its options, and what a task awaits of it, and a thread waits for."""

import math
import time
from contextlib import suppress
from typing import Any, Callable, Generic, Literal, TypeVar

from redis.exceptions import LockError, RedisError

from . import _options
from ._core import Core
from ._errors import DEADLOCK, DeadlockError, says
from ._holds import HoldOperations
from ._mine import Holds, ThreadLocal
from ._options import Names, spelled
from ._request import Grant, Request, fresh_owner
from ._state import TTL, Life
from ._withdrawals import Withdrawal

Client = TypeVar("Client")
Event = TypeVar("Event")


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
    ``thread_local``: whether a thread knows of its own holds only. With False one may release what another has acquired.
    ``raise_on_release_error``: whether ``with`` raises if the lock was lost while it was held; else it logs that.
    ``shared``: shares the lock with others who also share it. ``limit``: shares it while fewer than so many others do.
    ``fair``: the group of the request, with ``limit``: that which holds the fewest is served next. ``per``: its own limit.
    ``renew``: renews the hold in the background; ``renew_for`` so many seconds at most. If a task's hold that is renewed is
        lost, the task inside of ``async with`` is cancelled, and LockNotOwnedError comes out.
    ``on_lost``: called when the hold is found to be lost; for threads, in another thread.
    ``replicas``: acquired, and renewed, only if so many replicas have acknowledged it; else ResponseError (``NOREPLICAS``).
    ``max_queue``: raises ResponseError (``QUEUEFULL``) instead of waiting behind so many others or more.
    ``queue``: waits without a connection of its own: by default where the client has a single one, or half of them wait.
    ``owner_prefix``: what an owner begins with, before its uuid: by default the host's name and the process id.
    ``require_module``: raises ModuleMissingError on a server without the module.

    ``with lock as hold`` and ``hold = lock.hold()`` (``async with``, ``await``) give a Hold, with the fencing token and
    with methods of its own. As a decorator a lock is held during each call of a function.
    """

    ttl = TTL

    _link_class: Any
    _hold_class: Any

    def __init__(self, redis: Client, name: Names, timeout: float | None = None, sleep: float = 0.1,
                 blocking: bool = True, blocking_timeout: float | None = None, thread_local: bool = True,
                 raise_on_release_error: bool = True, *, shared: bool = False, limit: int | None = None,
                 renew: bool | None = None, renew_for: float | None = None,
                 on_lost: Callable[[], object] | None = None, queue: bool | None = None, require_module: bool = False,
                 max_queue: int | None = None, owner_prefix: str | None = None, replicas: int | None = None,
                 fair: str | None = None, per: int | None = None) -> None:
        options = {**locals()}  # as they were given, by name
        for other in ("self", "redis", "on_lost"):
            del options[other]
        # Not theirs: it would register scripts.
        self._link = self._link_class(redis, name)
        _options.function("on_lost", on_lost)
        spelling = None
        with suppress(TypeError):  # of a list, which has no hash; or of nonsense, which is refused in words below
            spelling = spelled(**options)
        spelling = spelling or spelled.__wrapped__(**options)
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
        not. While nothing is held, it is that of the latest hold."""
        hold = self._mine() or self.local.latest
        if hold is None:
            raise LockError("Nothing was acquired by this lock that could be lost", lock_name=self.name)
        event: Event = hold.lost
        return event

    # Its holds

    def _new_hold(self, request: Request, grant: Grant) -> Any:
        # Only an owner that the caller has chosen can be granted the lock again.
        latest = (self._core.link.server.granted(self._core.spelling.keys, request.owner, grant.fence)
                  if request.is_chosen else None)
        renews = self.timeout is None if self.renew is None else self.renew
        life = Life(request.seconds, grant.asked, renews, self.renew_for)
        return self._hold_class(self, request.owner, grant.fence, life, latest)

    def _begin_by_token(self, token: bytes) -> Any:
        """That was handed over: since when it is held, and how long that lasts, is not known."""
        return self.local.add(self._hold_class(self, token, None, Life(math.inf, time.monotonic(), False, None), None))

    def _mine(self) -> Any:
        token = self.local.handed_over
        return self.local.pick() if token is None else self._begin_by_token(token)

    def _mine_or_error(self, words: str) -> Any:
        hold = self._mine()
        if hold is None:
            if self.local.live():
                words += " Several hold it by this object: use the hold that `lock.hold()` or `with` returns."
            raise LockError(words, lock_name=self.name)
        return hold

    # To acquire

    def _request(self, sleep: float | None, blocking: bool | None, blocking_timeout: float | None, token: Any) -> Request:
        blocking = self.blocking if blocking is None else _options.flag("blocking", blocking)
        patience = _options.patience(
            "blocking_timeout", self.blocking_timeout if blocking_timeout is None else blocking_timeout)
        owner = fresh_owner(self.owner_prefix) if token is None else self.redis.get_encoder().encode(token)
        seconds = _options.span("timeout", self.ttl if self.timeout is None else self.timeout)
        return Request(self._core.spelling.owner(owner), token is not None, seconds,
                       _options.pause("sleep", self.sleep if sleep is None else sleep), patience if blocking else 0,
                       self._link.new_bell())

    async def _hold(self, request: Request, remembers: bool = True) -> Any:
        """One that this object remembers, or not. None if it is not to be had in time."""
        try:
            grant = await self._link.in_time(request, self._core.acquire(request))
            if grant is None:
                return None
            hold = self._new_hold(request, grant)
            return self.local.add(hold) if remembers else hold
        except BaseException as error:
            await self._give_up(request, error)
            if says(error, *DEADLOCK):
                raise DeadlockError(str(error), lock_name=self.name) from error
            raise

    async def _hold_or_error(self, request: Request) -> Any:
        hold = await self._hold(request, remembers=False)
        if hold is None:
            raise self._not_acquired()
        return hold

    def _not_acquired(self) -> LockError:
        return LockError("Unable to acquire lock within the time specified", lock_name=self.name)

    async def _give_up(self, request: Request, error: BaseException) -> None:
        """Leaves nothing behind. A client that has an error has tried for long enough: the caller has the error now."""
        if request.left and (hold := self.local.of(request.owner)):
            hold._forget()
        is_told, asking = isinstance(error, RedisError), request.asking
        if request.left or asking is not None and not (asking.done() and is_told):
            withdrawal = Withdrawal(self._core, request.owner, request.may_be_left_until(), request)
            request.given_up = True
            request.woken.set()
            if not is_told:
                await self._link.linger(withdrawal.ended)


class LockOperations(LockBase[Client, Event]):
    """What is done with a lock, as a task does it; what a thread does is made of this."""

    async def do_acquire(self, token: Any) -> bool:
        """Tries once."""
        return await self._hold(self._request(None, False, None, token)) is not None

    async def release(self) -> None:
        """Ends the hold of this thread or task. Whatever becomes of it, it is not renewed any more; a task that is
        cancelled sees it through."""
        await HoldOperations.release(self._mine_or_error("Cannot release a lock that's not owned or is already unlocked."))

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
        hold = self._mine_or_error("Cannot extend an unlocked lock")
        return await HoldOperations.extend(hold, additional_time, replace_ttl)

    async def reacquire(self) -> Literal[True]:
        """From now on it lasts for ``timeout`` seconds again."""
        hold = self._mine_or_error("Cannot reacquire an unlocked lock")
        hold._timeout = self.timeout
        return await HoldOperations.reacquire(hold)

    do_extend, do_reacquire = extend, reacquire

    async def guard(self, *command: Any) -> Any:
        """Runs a command only while the server sees that this thread or task holds this lock: see ``Hold.guard``."""
        return await HoldOperations.guard(self._mine_or_error("Cannot guard by an unlocked lock"), *command)
