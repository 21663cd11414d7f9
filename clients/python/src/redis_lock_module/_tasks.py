"""Lock for redis.asyncio: Redis, Redis over Sentinel, and RedisCluster."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import time
from contextlib import suppress
from types import TracebackType
from typing import (
    Any,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Literal,
    Optional,
    ParamSpec,
    Set,
    Type,
    TypeVar,
    Union,
)
from weakref import ref

from redis.asyncio.client import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.lock import Lock as TheirLock
from redis.client import Redis as ThreadRedis
from redis.cluster import RedisCluster as ThreadRedisCluster
from redis.exceptions import LockError, LockNotOwnedError, RedisError, ResponseError, TimeoutError

from . import _options
from ._ear_of_tasks import FOR_EVER, ear_of
from ._errors import DeadlockError, NotOwner, is_deadlock
from ._holds import Hold as AnyHold
from ._holds import Holds, LockBase
from ._link import Line, Link, T
from ._options import milliseconds
from ._request import Grant, Request
from ._withdrawals import Withdrawal
from ._words import Name

logger = logging.getLogger("redis_lock_module")

P = ParamSpec("P")
R = TypeVar("R")

_PATIENCE = 2.0  # for how long a task that gives up waits for what it gives up, in seconds
_PAUSE = 0.1  # so long after a RELEASE the wait that it ends must have been answered
_background: Set["asyncio.Task[Any]"] = set()  # the loop itself keeps no task alive


def _go_on_in_background(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_done)
    return task


def _done(task: "asyncio.Task[Any]") -> None:
    _background.discard(task)
    if not task.cancelled():
        task.exception()  # has been asked for


async def _see_through(task: "asyncio.Task[Any]") -> None:
    """The caller is cancelled, and waits for it a little. One that is cancelled again leaves it to the background:
    anyio cancels in each turn of the loop, until the task has ended."""
    with suppress(asyncio.CancelledError):
        await asyncio.wait({task}, timeout=_PATIENCE)


class TaskLine(Line):
    async def say(self, *words: Any, raw: bool = False, limit: Optional[float] = None) -> Any:
        await self.connection.send_command(*words)
        if limit is None:
            return await self.connection.read_response(disable_decoding=raw)
        # This call alone waits so long, whatever time the client has for others.
        reading = self.connection.read_response(timeout=FOR_EVER)
        try:
            return await asyncio.wait_for(reading, None if limit == math.inf else limit)
        except asyncio.TimeoutError:
            raise TimeoutError("no reply") from None


class TaskLink(Link):
    def __init__(self, client: Any, key: Name) -> None:
        super().__init__(client, key)
        self.is_cluster = isinstance(client, RedisCluster)

    @property
    def pool(self) -> Any:
        return self.client if self.is_cluster else self.client.connection_pool  # the nodes of a cluster have no pool

    def _node(self) -> Any:
        return self.client.get_node_from_key(self.key)

    def connections(self) -> int:
        try:
            return int((self._node() if self.is_cluster else self.pool).max_connections)
        except RedisError:  # it is not known just now where the key is
            return 0

    def is_single(self) -> bool:
        return bool(getattr(self.client, "single_connection_client", False))

    def ear(self) -> Any:
        return None if self.is_cluster else ear_of(self.pool)

    async def ask(self, words: Any) -> Any:
        return await self.client.execute_command(*words)

    async def get_ready(self) -> None:
        if self.is_cluster:
            await self.client.initialize()  # once: it knows no nodes before

    async def within(self, request: Request, work: Callable[[], Awaitable[T]], left: Callable[[], object],
                     too_late: Callable[[], object]) -> T:
        return await work()  # the task that waits for all of it ends in time

    async def talk(self, talk: Any, request: Optional[Request] = None) -> Any:
        await self.get_ready()
        node = self._node() if self.is_cluster else None
        connection, is_whole = None, False
        try:
            connection = await _of_a_node(node) if node else await self.pool.get_connection()
            line = TaskLine(connection)
            try:
                result = await talk(line)
                is_whole = line.is_whole
                return result
            except (ResponseError, NotOwner):
                is_whole = line.is_whole
                raise
        finally:
            if connection is not None:
                if not is_whole:
                    await connection.disconnect(nowait=True)
                if not node:
                    await self.pool.release(connection)
                elif hasattr(node, "release"):
                    node.release(connection)
                else:
                    node._free.append(connection)  # as redis-py before 7.1 does it itself

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def go_on(self, withdrawal: Any) -> None:
        _go_on_in_background(withdrawal.go_on())

    async def rest(self, request: Request, seconds: float) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(request.woken.wait(), None if seconds == math.inf else seconds)


async def _of_a_node(node: Any) -> Any:
    connection = node.acquire_connection()
    if connection.is_connected:
        # One that the server has closed meanwhile, which a pool would have noticed.
        reader = getattr(connection, "_reader", None)
        if reader is None or reader.at_eof():
            await connection.disconnect(nowait=True)
    return connection


class Hold(AnyHold):
    """
    One grant of a lock: what ``async with lock`` and ``async with lock.hold()`` give. It can be used by any task.

    It is not renewed any more when nothing refers to it.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._worker: Optional["asyncio.Task[Any]"] = None  # cancelled when the hold is lost
        self._has_cancelled = False
        self._renews = self._term.renews
        self._renewing = False
        self._loop = asyncio.get_running_loop()
        self._timer: Optional[asyncio.TimerHandle] = None
        self._arm()

    async def __aenter__(self) -> "Hold":
        self._worker = asyncio.current_task()
        return self

    async def __aexit__(self, exc_type: Optional[Type[BaseException]], exc_value: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        await _leave(self.release, self, self._raises, exc_value)

    @property
    def lost(self) -> asyncio.Event:
        """Set when it is found to be lost. One that is released before is not."""
        self._look()
        event: asyncio.Event = self._lost
        return event

    async def release(self) -> None:
        """Ends it; a task that is cancelled meanwhile sees it through. Raises LockNotOwnedError if it was lost before.
        """
        await _shielded(self._do_release_once())

    async def renew(self, timeout: Optional[float] = None) -> None:
        """From now on it lasts for so many seconds: by default as many as at first."""
        await self._do_renew(milliseconds(_options.span("timeout", self._term.ttl if timeout is None else timeout)),
                             "renew")

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Adds so many seconds to those that are left; with ``replace_ttl`` it lasts for so many from now on."""
        self._with_a_timeout("extend")
        await self._do_extend(additional_time, replace_ttl)
        return True

    async def reacquire(self) -> Literal[True]:
        """From now on it lasts for as long as at first."""
        self._with_a_timeout("reacquire")
        assert self._timeout
        await self._do_renew(milliseconds(self._timeout), "reacquire")
        return True

    async def owned(self) -> bool:
        """Whether the server still sees it; of several locks, all of them."""
        return await self._do_owned()

    async def locked(self) -> bool:
        """Whether the lock is held, by any owner; of several, any of them."""
        return await self._core.locked()

    async def guard(self, *command: Any) -> Any:
        """Runs a command in the same instant in which the server sees that this is held, or not at all.

        It is sent once: if its connection breaks before the reply, the client's error says so, and it may have run.
        Of several locks, by the first. Raises LockNotOwnedError if it is not held."""
        return await self._do_guard(command)

    # To renew it, and to notice that it is lost. By timers, which a loop that is stopped forgets.

    def _arm(self) -> None:
        if self._timer:
            self._timer.cancel()
        at = self._term.ends if self._renewing else min(self._term.ends, self._term.due())
        if at == math.inf or self._over or self._lost.is_set():
            return
        self._timer = self._loop.call_later(max(0.0, at - time.monotonic()), Hold._due, ref(self))

    @staticmethod
    def _due(me: "ref[Hold]") -> None:
        hold = me()
        if hold is None or hold._over or hold._lost.is_set():
            return
        if hold._term.is_over():
            hold._lose(hold._term.why_it_is_over())
        elif hold._term.due() <= time.monotonic() and not hold._renewing:
            hold._renewing = True
            _go_on_in_background(hold._keep())
        hold._arm()

    async def _keep(self) -> None:
        asked = time.monotonic()
        self._term.is_being_renewed()
        try:
            renewing = self._core.renew(self._token, milliseconds(self._term.ttl))
            held = await asyncio.wait_for(renewing, self._term.ends - asked)
        except asyncio.TimeoutError as error:
            self._term.failed(error if str(error) else TimeoutError("no reply"))
        except Exception as error:  # of a client that was closed meanwhile: whatever there is
            logger.warning("Could not renew lock %r: %s", self.name, error)
            self._term.failed(error)
        else:
            if held:
                self._term.prolonged(asked, self._term.ttl)
            elif self._term.renews:
                self._lose("was held by no owner, or by another, when it was renewed")
        finally:
            self._renewing = False
            self._arm()

    def _prolonged(self, asked: float, ttl: float) -> None:
        self._term.prolonged(asked, ttl)
        self._arm()

    def _stop(self) -> None:
        self._term.renews = False
        if self._timer:
            self._timer.cancel()

    def _tell(self) -> None:
        if self._renews and self._worker and not self._worker.done() and self._worker is not _current_task():
            self._has_cancelled = True
            self._worker.cancel()
        if self._on_lost:
            self._loop.call_soon(self._on_lost)  # what it raises is the loop's to tell


async def _shielded(work: Coroutine[Any, Any, T]) -> T:
    task = _go_on_in_background(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _see_through(task)
        raise


def _current_task() -> Optional["asyncio.Task[Any]"]:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


async def _leave(release: Any, hold: Optional[Hold], raises: bool, exc_value: Optional[BaseException]) -> None:
    ours, others, was_told = False, 0, hold is not None and hold._lost.is_set()
    if hold:
        hold._worker = None
    if hold and hold._has_cancelled:
        hold._has_cancelled = False
        others = await _take_back_the_cancellation(has_arrived=exc_value is not None)
        ours = not others and isinstance(exc_value, (asyncio.CancelledError, type(None)))
    # A cancellation by others is not turned into an error: code that catches that would go on.
    raises = ours or raises and (exc_value is None or isinstance(exc_value, Exception))
    try:
        try:
            await release()
        except LockError:
            if not was_told:
                raise
        if was_told and hold:
            # The work was told so, whatever has come of the release.
            raise hold._lost_while_held(exc_value)
    except LockError:
        if raises:
            raise
        logger.warning("Lock was unlocked or no longer owned when exiting context manager.")
    if others and exc_value is None:
        raise asyncio.CancelledError


async def _take_back_the_cancellation(has_arrived: bool) -> int:
    """Of the work, by this lock. How many others have cancelled it too."""
    if not has_arrived:  # the work was done before
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
    task: Any = asyncio.current_task()
    return int(task.uncancel()) if hasattr(task, "uncancel") else 0  # from Python 3.11 on


class _Holding:
    """What ``lock.hold()`` returns: it is awaited, or entered by ``async with``."""

    def __init__(self, acquire: Any) -> None:
        self._acquire = acquire
        self._hold: Optional[Hold] = None

    def __await__(self) -> Generator[Any, None, Hold]:
        result: Generator[Any, None, Hold] = self._acquire().__await__()
        return result

    async def __aenter__(self) -> Hold:
        self._hold = await self._acquire()
        return await self._hold.__aenter__()

    async def __aexit__(self, exc_type: Optional[Type[BaseException]], exc_value: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        assert self._hold
        await self._hold.__aexit__(exc_type, exc_value, traceback)


class Lock(LockBase[Union[Redis, RedisCluster]], TheirLock):
    """
    redis-py's asyncio Lock by the commands of the redis-lock module: waiters stand in a queue in the server, and are
    served in order, the moment the lock is free. Without the module it is an exclusive lock by SET NX, which waits by
    asking.

    Made by ``client.lock(name, ..., lock_class=Lock)``, or by itself, which takes more options:

    ``name``: of the lock, or a list of names, which are all held together or not at all.

    ``timeout``: for how many seconds it is held at most, unless it is extended or renewed. With None it expires after
    ``Lock.ttl`` (30) seconds, and is renewed until it is released, or until its process is gone.

    ``blocking``, ``blocking_timeout``: whether, and for how many seconds at most, to wait; None waits for ever, and 0
    tries once. If the server does not answer by then, TimeoutError follows soon after.

    ``sleep``: the seconds between two questions, where the client has to ask again and again.

    ``thread_local``: as in redis-py. Tasks may share the object in either case, each with a hold of its own.

    ``raise_on_release_error``: whether ``async with`` raises if the lock was lost while it was held; else it logs that.

    ``shared``: shares the lock with others who also share it. ``limit``: shares it while fewer than so many others do.

    ``renew``: renews the hold in the background, at a third of ``timeout``; ``renew_for`` so many seconds at most. If a
    hold that is renewed is lost, the task inside of ``async with`` is cancelled, and LockNotOwnedError comes out of it.

    ``on_lost``: called when the hold is found to be lost.

    ``queue``: waits without a connection of its own: it keeps a place in the queue, and is told when it is its turn. By
    default that is done where the client has a single connection, and where half of the pool's connections wait already.

    ``require_module``: raises ModuleMissingError on a server without the module.

    ``max_queue``: does not wait behind so many others or more, but raises ResponseError (``QUEUEFULL``) at once.

    ``owner_prefix``: what an owner begins with, before its uuid: by default the host's name and the process id.

    ``async with lock as hold`` and ``hold = await lock.hold()`` give a Hold, with the fencing number and with methods of
    its own.
    """

    _hold_class = Hold

    @staticmethod
    def _check(client: Any) -> None:
        if isinstance(client, (ThreadRedis, ThreadRedisCluster)):
            raise TypeError("this Lock is for redis.asyncio: for a client that threads use take redis_lock_module.Lock")
        if not isinstance(client, (Redis, RedisCluster)):
            raise TypeError(f"a lock needs a client of redis-py, a redis.asyncio.Redis or RedisCluster, not {client!r}")

    @staticmethod
    def _new_holds() -> Holds:
        return Holds(lambda: _current_task() or asyncio, lambda task: task is not asyncio and task.done(),
                     asyncio.Event)

    def _link(self, key: Name) -> Any:
        return TaskLink(self.redis, key)

    def _new_request(self, owner: bytes, ttl: float, sleep: float, patience: Optional[float]) -> Request:
        return Request(owner, ttl, sleep, patience, asyncio.Event())

    async def __aenter__(self) -> Hold:
        if not await self.acquire():
            raise self._not_acquired()
        hold: Hold = self._mine()
        self.local.holds.enter(hold)
        return await hold.__aenter__()

    async def __aexit__(self, exc_type: Optional[Type[BaseException]], exc_value: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        hold = self.local.holds.pick(entered=True)
        await _leave(lambda: self._release(hold) if hold else self.release(), hold, self.raise_on_release_error,
                     exc_value)

    def __call__(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """A decorator. A call raises LockError, and the function does not run, if the lock is not to be had in time."""
        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            async with self:
                return await function(*args, **kwargs)
        return call

    @property
    def lost(self) -> asyncio.Event:
        """Set when this task's hold is found to be lost; one that is released before is not. Taken while nothing is
        held, it is that of the hold that comes."""
        hold: Optional[Hold] = self._mine()
        event: asyncio.Event = hold.lost if hold else self.local.holds.event_while_nothing_is_held()
        return event

    async def acquire(
        self,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Optional[Union[str, bytes]] = None,
    ) -> bool:
        """Waits for the lock and returns whether it is held, then by this task. The options as those of the lock.

        ``token`` is the owner, by default a new one for each request. Two workers with one token are the same to the
        lock, and both get it."""
        request = self._request(None, blocking, blocking_timeout, token)
        if type(self).do_acquire is not Lock.do_acquire:
            return await self._acquire_by_do_acquire(request)
        return await self._acquire(request, self._begin) is not None

    def hold(
        self,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Optional[Union[str, bytes]] = None,
    ) -> _Holding:
        """Waits for the lock and returns a hold of its own, which this object forgets; raises LockError if it is not to
        be had in time. To be awaited; or ``async with lock.hold(blocking_timeout=5) as hold`` releases it at the end.
        """
        async def acquire() -> Hold:
            hold = await self._acquire(self._request(None, blocking, blocking_timeout, token),
                                       lambda token, grant: self._new_hold(token, grant, asyncio.Event()))
            if hold is None:
                raise self._not_acquired()
            return hold

        return _Holding(acquire)

    async def _acquire(self, request: Request, begin: Any) -> Optional[Hold]:
        # In a task of its own, which is not cancelled in the middle of a reply.
        asking = _go_on_in_background(self._core.acquire(request))
        try:
            limit = request.listens_for()
            await asyncio.wait({asking}, timeout=None if limit == math.inf else limit)
            if not asking.done():  # the loop may have been held up, and have the reply
                await asyncio.wait({asking}, timeout=_PAUSE)
            if not asking.done():
                self._give_up(request, asking)
                raise TimeoutError("no reply in time")
            grant = asking.result()
        except asyncio.CancelledError:
            await _see_through(self._give_up(request, asking))
            raise
        except BaseException as error:
            if request.left and asking.done():
                self._core.withdraw_in_background(request.owner, request.may_be_left_until())
            if is_deadlock(error):
                raise DeadlockError(str(error), lock_name=self.name) from error
            raise
        hold: Optional[Hold] = begin(request.owner, grant) if grant else None
        return hold

    async def do_acquire(self, token: Any) -> bool:
        """Tries once. A class that overrides it is asked every ``sleep`` seconds, as by redis-py."""
        request = self._new_request(_options.owner(self.redis.get_encoder().encode(token)), self._held_for(),
                                    self.sleep, 0)
        return await self._acquire(request, self._begin) is not None

    async def _acquire_by_do_acquire(self, request: Request) -> bool:
        while not await self.do_acquire(request.owner):
            if request.is_over():
                return False
            await asyncio.sleep(request.for_a_while(request.pause))
        return True

    # To give up

    def _give_up(self, request: Request, asking: "asyncio.Task[Optional[Grant]]") -> "asyncio.Task[bool]":
        """Ends the request, hears what has become of it, and leaves nothing of it behind."""
        withdrawal = Withdrawal(self._core, request.owner, request.may_be_left_until())
        withdrawal.wait()

        def ended(ending: "asyncio.Task[bool]") -> None:
            if ending.cancelled() or not ending.exception() and not ending.result():
                withdrawal.end()
            else:
                withdrawal.begin(request.may_be_left_until())

        task = _go_on_in_background(self._end(request, asking))
        task.add_done_callback(ended)
        return task

    async def _end(self, request: Request, asking: "asyncio.Task[Optional[Grant]]") -> bool:
        """Whether something may be left of it."""
        request.give_up()
        until = time.monotonic() + _PATIENCE
        while not asking.done() and time.monotonic() < until:
            if request.blocks:
                await self._core.withdraw(request.owner)
            await asyncio.wait({asking}, timeout=_PAUSE)
        if not asking.done():
            asking.cancel()
            await asyncio.wait({asking}, timeout=_PATIENCE)
        return request.left and not await self._core.withdraw(request.owner)

    async def release(self) -> None:
        """Ends the hold of this task. Whatever becomes of it, it is not renewed any more; a task that is cancelled sees
        it through."""
        await self._release(self._mine_or_error("Cannot release a lock that's not owned or is already unlocked."))

    async def _release(self, hold: Hold) -> None:
        hold._releasing = _background  # not by this task: it may be cancelled, and this goes on
        hold._stop()
        await _shielded(self._release_by_do_release(hold))

    async def _release_by_do_release(self, hold: Hold) -> None:
        try:
            await self.do_release(hold._token)
            hold._over = True
        except LockNotOwnedError:
            hold._over = True
            raise
        finally:
            hold._releasing = None

    async def do_release(self, expected_token: Any) -> None:
        hold = self._mine_or_error("", self.redis.get_encoder().encode(expected_token))
        await hold._do_release()

    # What is done with a hold

    async def locked(self) -> bool:
        """Whether it is held, by any owner; of several, any of them."""
        return await self._core.locked()

    async def owned(self) -> bool:
        """Whether this task holds it; of several, all of them."""
        hold = self._mine()
        return hold is not None and bool(await hold.owned())

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Adds so many seconds to those that are left; with ``replace_ttl`` it lasts for so many from now on."""
        self._mine_or_error("Cannot extend an unlocked lock")._with_a_timeout("extend")
        return await self.do_extend(additional_time, replace_ttl)

    async def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        await self._mine_or_error("Cannot extend an unlocked lock")._do_extend(additional_time, replace_ttl)
        return True

    async def reacquire(self) -> Literal[True]:
        """From now on it lasts for ``timeout`` seconds again."""
        self._mine_or_error("Cannot reacquire an unlocked lock")._with_a_timeout("reacquire")
        return await self.do_reacquire()

    async def do_reacquire(self) -> Literal[True]:
        hold = self._mine_or_error("Cannot reacquire an unlocked lock")
        await hold._do_renew(milliseconds(self._held_for()), "reacquire")
        return True

    async def guard(self, *command: Any) -> Any:
        """Runs a command in the same instant in which the server sees that this lock is held, or not at all.

        It is sent once: if its connection breaks before the reply, the client's error says so, and it may have run.
        Of several locks, by the first. Raises LockNotOwnedError if it is not held."""
        return await self._mine_or_error("Cannot guard by an unlocked lock").guard(*command)
