"""Lock for redis.asyncio: Redis, Redis over Sentinel, and RedisCluster: how a task sends and waits."""

from __future__ import annotations

import asyncio
import functools
import math
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Awaitable, Callable, Coroutine, Generator, ParamSpec, TypeVar, Union

from redis.asyncio.client import Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.lock import Lock as TheirLock
from redis.client import Redis as ThreadRedis
from redis.cluster import RedisCluster as ThreadRedisCluster
from redis.exceptions import TimeoutError

from ._holds import HoldOperations, leave
from ._link import Link, T
from ._lock import PATIENCE, LockBase, LockOperations
from ._request import Request

P = ParamSpec("P")
R = TypeVar("R")

_FOR_EVER = 1e8  # asyncio's connections take None for "as long as the client says"
_background: set[asyncio.Task[Any]] = set()  # the loop itself keeps no task alive


def _go_on_in_background(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_done)
    return task


def _done(task: asyncio.Task[Any]) -> None:
    _background.discard(task)
    if not task.cancelled():
        task.exception()  # has been asked for


async def _see_through(task: asyncio.Task[Any]) -> None:
    """The caller is cancelled, and waits for it a little. One that is cancelled again leaves it to the background:
    anyio cancels in each turn of the loop, until the task has ended."""
    with suppress(asyncio.CancelledError):
        await asyncio.wait({task}, timeout=PATIENCE)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class _Work:
    """Is done by a task of its own, and not cancelled with the one that waits for it."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self.task = _go_on_in_background(self._run(work))
        self.done, self.cancel, self.result = self.task.done, self.task.cancel, self.task.result

    async def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await work
        finally:
            # A turn of the loop earlier than what is called when a task has ended.
            if self._waiter and not self._waiter.done():
                self._waiter.set_result(None)

    async def wait(self, seconds: float = math.inf) -> bool:
        if seconds < math.inf:
            await asyncio.wait({self.task}, timeout=seconds)
        elif not self.done():
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.done()


class _Node:
    """A node of redis-py's asyncio cluster, which has no pool."""

    def __init__(self, node: Any) -> None:
        self._node, self.max_connections = node, node.max_connections

    async def get_connection(self) -> Any:
        connection = self._node.acquire_connection()
        if connection.is_connected:
            # One that the server has closed meanwhile, which a pool would have noticed.
            reader = getattr(connection, "_reader", None)
            if reader is None or reader.at_eof():
                await connection.disconnect(nowait=True)
        return connection

    async def release(self, connection: Any) -> None:
        if hasattr(self._node, "release"):
            self._node.release(connection)
        else:
            self._node._free.append(connection)  # as redis-py before 7.1 does it itself


class TaskLink(Link):
    clients, clients_of_others = (Redis, RedisCluster), (ThreadRedis, ThreadRedisCluster)
    needs = "a redis.asyncio.Redis or RedisCluster"
    mixed_up = "this Lock is for redis.asyncio: for a client that threads use take redis_lock_module.Lock"
    is_async, at_once, may_be_interrupted = True, {"nowait": True}, False
    new_event = new_bell = asyncio.Event
    place, sleep = staticmethod(asyncio.get_running_loop), staticmethod(asyncio.sleep)
    go_on = staticmethod(_go_on_in_background)
    me, releaser = staticmethod(lambda: _current_task() or asyncio), staticmethod(lambda: _background)

    def is_single(self) -> bool:
        return bool(getattr(self.client, "single_connection_client", False))

    def node_pool(self) -> Any:
        return _Node(self.client.get_node_from_key(self.key)) if self.is_cluster else self.client.connection_pool

    async def get_ready(self) -> None:
        if self.is_cluster:
            await self.client.initialize()  # once: it knows no nodes before

    async def ask(self, words: Any) -> Any:
        return await self.client.execute_command(*words)

    @staticmethod
    async def read(connection: Any, limit: float) -> Any:
        reading = connection.read_response(timeout=_FOR_EVER)
        try:
            return await asyncio.wait_for(reading, None if limit == math.inf else limit)
        except asyncio.TimeoutError:
            raise TimeoutError("no reply") from None

    @staticmethod
    async def hear(connection: Any, seconds: float) -> Any:
        return await connection.read_response(disable_decoding=True, push_request=True, timeout=seconds)

    async def rest(self, request: Request, seconds: float) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(request.woken.wait(), None if seconds == math.inf else seconds)

    def has_ended(self, one: Any) -> bool:
        return one is None or one is not asyncio and bool(one.done())

    def call_at(self, at: float, what: Callable[..., object], *args: Any) -> Any:
        with suppress(RuntimeError):  # the loop is closed
            return asyncio.get_running_loop().call_later(max(0.0, at - time.monotonic()), what, *args)

    def begin(self, request: Request, work: Coroutine[Any, Any, object]) -> None:
        request.asking = _Work(work)

    async def wait(self, work: Any, seconds: float) -> bool:
        return bool(await work.wait(seconds))

    async def leave(self, end: Callable[..., Coroutine[Any, Any, None]], *args: Any, waits: bool) -> None:
        ending = _go_on_in_background(end(*args))
        if waits:
            await _see_through(ending)

    async def see_through(self, work: Coroutine[Any, Any, Any]) -> Any:
        doing = _Work(work)
        try:
            await doing.wait()
        except asyncio.CancelledError:
            await _see_through(doing.task)
            raise
        return doing.result()


class Hold(HoldOperations[asyncio.Event]):
    """
    One grant of a lock: what ``async with lock`` and ``async with lock.hold()`` give. It can be used by any task.

    It is not renewed any more when nothing refers to it.
    """

    _worker: asyncio.Task[Any] | None = None  # cancelled when a hold that is renewed is lost
    _cancelled: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> Hold:
        self._worker = asyncio.current_task()
        return self

    async def __aexit__(self, exc_type: type[BaseException] | None, exc_value: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await _leave(self.release, self, self._raises, exc_value)

    async def _ask_to_renew(self) -> bool:
        try:
            return await asyncio.wait_for(super()._ask_to_renew(), self._life.ends - time.monotonic())
        except asyncio.TimeoutError:
            raise TimeoutError("no reply") from None

    def _tell(self) -> None:
        if self._was_renewed and self._worker and not self._worker.done() and self._worker is not _current_task():
            self._cancelled = self._worker
            self._worker.cancel()
        if self._on_lost:
            self._link.call_at(0.0, self._on_lost)  # what it raises is the loop's to tell


async def _leave(release: Any, hold: Hold | None, raises: bool, exc_value: BaseException | None) -> None:
    ours, others = False, 0
    if hold:
        hold._is_lost()  # the clock may say so before the timer
        hold._worker = None
    if hold and hold._cancelled:
        hold._cancelled = None
        others = await _take_back_the_cancellation(has_arrived=exc_value is not None)
        ours = not others and isinstance(exc_value, (asyncio.CancelledError, type(None)))
    # A cancellation by others is not turned into an error: code that catches that would go on.
    await leave(hold, release, ours or raises and (exc_value is None or isinstance(exc_value, Exception)), exc_value)
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

    def __init__(self, acquire: Callable[[], Coroutine[Any, Any, Hold]]) -> None:
        self._acquire = acquire

    def __await__(self) -> Generator[Any, None, Hold]:
        return self._acquire().__await__()

    async def __aenter__(self) -> Hold:
        self._hold = await self._acquire()
        return await self._hold.__aenter__()

    async def __aexit__(self, exc_type: type[BaseException] | None, exc_value: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self._hold.__aexit__(exc_type, exc_value, traceback)


class Lock(LockOperations[Union[Redis, RedisCluster], asyncio.Event], TheirLock):
    __doc__ = LockBase.__doc__
    _link_class = TaskLink
    _hold_class = Hold
    _ours = {"do_acquire": LockOperations.do_acquire, "do_release": LockOperations.do_release}

    async def __aenter__(self) -> Hold:
        if not await self.acquire():
            raise self._not_acquired()
        hold: Hold = self._mine()
        self.local.enter(hold)
        return await hold.__aenter__()

    async def __aexit__(self, exc_type: type[BaseException] | None, exc_value: BaseException | None,
                        traceback: TracebackType | None) -> None:
        hold = self.local.pick(entered=True)
        await _leave(lambda: self._release(hold) if hold else self.release(), hold, self.raise_on_release_error,
                     exc_value)

    def __call__(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """A decorator. A call raises LockError, and the function does not run, if the lock is not to be had in time."""
        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            async with self:
                return await function(*args, **kwargs)
        return call

    async def acquire(self, blocking: bool | None = None, blocking_timeout: float | None = None,
                      token: str | bytes | None = None) -> bool:
        """Waits for the lock and returns whether it is held, then by this task. The options as those of the lock.

        ``token`` is the owner, by default a new one for each request. Two workers with one token are the same to the
        lock, and both get it."""
        return await self._acquire_by_the_rules(self._request(None, blocking, blocking_timeout, token))

    def hold(self, blocking: bool | None = None, blocking_timeout: float | None = None,
             token: str | bytes | None = None) -> _Holding:
        """Waits for the lock and returns a hold of its own, which this object forgets; raises LockError if it is not to
        be had in time. To be awaited; or ``async with lock.hold(blocking_timeout=5) as hold`` releases it at the end.
        """
        async def acquire() -> Hold:
            hold: Hold = await self._hold(self._request(None, blocking, blocking_timeout, token))
            return hold

        return _Holding(acquire)
