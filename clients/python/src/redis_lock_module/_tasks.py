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
from redis.exceptions import TimeoutError

from ._holds import HoldOperations, is_interrupt
from ._link import Link
from ._lock import LockBase, LockOperations

P = ParamSpec("P")
R = TypeVar("R")

_FOR_EVER = 1e8  # asyncio's connections take None for "as long as the client says"
_background: set[asyncio.Task[Any]] = set()  # the loop itself keeps no task alive


def _done(task: asyncio.Task[Any]) -> None:
    _background.discard(task)
    if not task.cancelled():
        task.exception()  # has been asked for


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class _Work:
    """Is done by a task of its own, and not cancelled with the one that waits for it."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work, self.ended = work, asyncio.Event()

    def start(self) -> None:
        task = asyncio.ensure_future(self._run())
        self.done, self.result = task.done, task.result
        _background.add(task)
        task.add_done_callback(_done)

    async def _run(self) -> Any:
        try:
            return await self._work
        finally:
            self.ended.set()  # a turn of the loop earlier than what is called when a task has ended


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
    clients, needs = (Redis, RedisCluster), "a redis.asyncio.Redis or RedisCluster (for threads: redis_lock_module.Lock)"
    at_once, may_be_interrupted = {"nowait": True}, False
    work, new_event, new_bell = _Work, asyncio.Event, asyncio.Event
    sleep = staticmethod(asyncio.sleep)
    me = staticmethod(lambda: _current_task() or asyncio)

    async def node_pool(self) -> Any:
        if not self.is_cluster:
            return self.client.connection_pool
        await self.client.initialize()  # once: it knows no nodes before
        return _Node(self.client.get_node_from_key(self.key))

    @staticmethod
    def came(result: Any) -> Any:
        return result  # which is awaited

    async def ask(self, words: Any) -> Any:
        return await self.client.execute_command(*words)

    @staticmethod
    async def read(connection: Any, limit: float | None) -> Any:
        try:
            return await asyncio.wait_for(connection.read_response(timeout=_FOR_EVER), limit)
        except asyncio.TimeoutError:
            raise TimeoutError("no reply") from None

    @staticmethod
    async def hear(connection: Any, seconds: float) -> Any:
        return await connection.read_response(disable_decoding=True, push_request=True, timeout=seconds)

    async def rest(self, bell: asyncio.Event, seconds: float) -> None:
        if seconds == math.inf:
            await bell.wait()
            return
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(bell.wait(), seconds)

    def has_ended(self, one: Any) -> bool:
        return one is None or one is not asyncio and bool(one.done())

    def call_at(self, at: float, what: Callable[..., object], *args: Any) -> Any:
        with suppress(RuntimeError):  # the loop is closed
            return asyncio.get_running_loop().call_later(max(0.0, at - time.monotonic()), what, *args)


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
        ours, others = False, 0
        self._look()  # the clock may say so before the timer
        self._worker = None
        if self._cancelled:
            self._cancelled = None
            others = await _take_back_the_cancellation(has_arrived=exc_value is not None)
            ours = not others and isinstance(exc_value, (asyncio.CancelledError, type(None)))
        await self._leave(ours or self._raises and not is_interrupt(exc_value), exc_value)
        if others and exc_value is None:
            raise asyncio.CancelledError

    def _tell(self) -> None:
        for event in self._events:
            event.set()
        if self._was_renewed and self._worker and not self._worker.done() and self._worker is not _current_task():
            self._cancelled = self._worker
            self._worker.cancel()
        if self._on_lost:
            self._link.call_at(0.0, self._on_lost)  # what it raises is the loop's to tell


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

    async def __aexit__(self, *error: Any) -> None:
        await self._hold.__aexit__(*error)


class Lock(LockOperations[Union[Redis, RedisCluster], asyncio.Event], TheirLock):
    __doc__ = LockBase.__doc__
    _link_class = TaskLink
    _hold_class = Hold

    async def __aenter__(self) -> Hold:
        if not await self.acquire():
            raise self._not_acquired()
        hold: Hold = self._mine()
        return await hold.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        hold = self._mine()
        if hold:
            await hold.__aexit__(*error)
        elif self.raise_on_release_error and not is_interrupt(error[1]):
            await self.release()  # whose error says that there is nothing to release

    def __call__(self, function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
        """A decorator. A call raises LockError, and the function does not run, if the lock is not to be had in time."""
        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            async with self:
                return await function(*args, **kwargs)
        return call

    async def acquire(self, blocking: bool | None = None, blocking_timeout: float | None = None,
                      token: str | bytes | None = None) -> bool:
        """Waits for the lock and returns whether it is held, then by this task. The options as those of the lock;
        ``token`` is the owner, by default a new one for each request: two workers with one token both get the lock."""
        return await self._hold(self._request(None, blocking, blocking_timeout, token)) is not None

    def hold(self, blocking: bool | None = None, blocking_timeout: float | None = None,
             token: str | bytes | None = None) -> _Holding:
        """As ``acquire``, and returns a hold of its own, which this object forgets; or raises LockError. It is awaited, or
        entered by ``async with``."""
        async def acquire() -> Hold:
            hold: Hold = await self._hold_or_error(self._request(None, blocking, blocking_timeout, token))
            return hold

        return _Holding(acquire)
