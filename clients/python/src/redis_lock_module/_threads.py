"""Lock for redis.Redis, Redis over Sentinel, and redis.RedisCluster: how a thread sends and waits."""

from __future__ import annotations

import functools
import inspect
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Callable, ParamSpec, TypeVar, Union

from redis.client import Redis
from redis.cluster import RedisCluster
from redis.connection import Connection
from redis.exceptions import TimeoutError
from redis.lock import Lock as TheirLock

from ._background import Bell, Errand, blocking, clock, finish
from ._holds import HoldBase, HoldOperations, is_interrupt, logger
from ._link import Link
from ._lock import LockBase, LockOperations

P = ParamSpec("P")
R = TypeVar("R")

# From 8.1 on a read can be given a time of its own. Before, a connection can be asked whether there is something to read.
_READS_WITH_TIMEOUT = "timeout" in inspect.signature(Connection.read_response).parameters


class ThreadLink(Link):
    clients, needs = (Redis, RedisCluster), "a Redis or a RedisCluster (for redis.asyncio: redis_lock_module.asyncio.Lock)"
    at_once, may_be_interrupted = {}, True
    me = staticmethod(threading.current_thread)
    work, new_event, new_bell, call_at = Errand, threading.Event, Bell, clock.call_at

    async def node_pool(self) -> Any:
        if not self.is_cluster:
            return self.client.connection_pool
        return self.client.get_redis_connection(self.client.get_node_from_key(self.key)).connection_pool

    @staticmethod
    async def came(result: Any) -> Any:
        return result

    async def ask(self, words: Any) -> Any:
        try:
            return self.client.execute_command(*words)
        except Exception:
            raise
        except BaseException:
            self._close_what_is_half_read()
            raise

    def _close_what_is_half_read(self) -> None:
        """redis-py keeps a connection that is interrupted after its question and before its reply: the reply would be
        taken for that to the next question."""
        client: Any = self.client
        if not self.is_cluster and client.connection:
            client.connection.disconnect()
            return
        pools = [client.connection_pool] if not self.is_cluster else [
            node.redis_connection.connection_pool for node in client.get_nodes() if node.redis_connection]
        for pool in pools:
            if "inuse_connections" in inspect.signature(pool.disconnect).parameters:
                pool.disconnect(inuse_connections=False)
            else:  # a BlockingConnectionPool before redis-py 7
                pool.disconnect()

    @staticmethod
    async def read(connection: Any, limit: float | None) -> Any:
        if _READS_WITH_TIMEOUT:
            return connection.read_response(timeout=limit)
        if not connection.can_read(timeout=limit):
            raise TimeoutError("no reply")
        return connection.read_response()

    @staticmethod
    async def hear(connection: Any, seconds: float) -> Any:
        if not connection.can_read(timeout=seconds):
            return None
        return connection.read_response(disable_decoding=True, push_request=True)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def rest(self, bell: Bell, seconds: float) -> None:
        bell.wait(seconds)

    def has_ended(self, one: Any) -> bool:
        return one is None or not one.is_alive()


class Hold(HoldBase[threading.Event]):
    """
    One grant of a lock: what ``lock.hold()`` returns, and what ``with`` gives. It can be used by any thread.

    ``with`` releases it at the end. It is not renewed any more when nothing refers to it.
    """

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc_value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        try:
            self._leave(self._raises and not is_interrupt(exc_value), exc_value)
        except Exception:
            raise
        except BaseException:  # an interrupt: no code comes back to release it
            if not self._life.is_over():
                self._let_go()
            raise

    release = blocking(HoldOperations.release)
    renew = blocking(HoldOperations.renew)
    extend = blocking(HoldOperations.extend)
    reacquire = blocking(HoldOperations.reacquire)
    owned = blocking(HoldOperations.owned)
    locked = blocking(HoldOperations.locked)
    guard = blocking(HoldOperations.guard)
    _leave = blocking(HoldOperations._leave)

    def _let_go(self) -> None:
        self._forget()
        with suppress(Exception):
            finish(self._do_release())

    def _tell(self) -> None:
        """By another thread: an interrupt may have left the caller's event locked, and the clock must not be held up."""
        async def tell() -> None:
            for event in self._events:
                event.set()
            try:
                if self._on_lost:
                    self._on_lost()
            except Exception:
                logger.exception("on_lost of lock %r failed", self.name)

        self._link.go_on(tell())


class Lock(LockBase[Union[Redis, RedisCluster], threading.Event], TheirLock):
    __doc__ = LockBase.__doc__
    _link_class = ThreadLink
    _hold_class = Hold

    def __enter__(self) -> Hold:  # type: ignore[override]
        before = self._mine()
        try:
            if not self.acquire():
                raise self._not_acquired()
            hold: Hold = self._mine()
            return hold
        except Exception:
            raise
        except BaseException:  # an interrupt after the grant
            interrupted = self._mine()
            if interrupted is not None and interrupted is not before:
                interrupted._let_go()
            raise

    def __exit__(self, *error: Any) -> None:
        hold = self._mine()
        if hold:
            hold.__exit__(*error)
        elif self.raise_on_release_error and not is_interrupt(error[1]):
            self.release()  # whose error says that there is nothing to release

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """A decorator. A call raises LockError, and the function does not run, if the lock is not to be had in time."""
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)
        return call

    def acquire(self, sleep: float | None = None, blocking: bool | None = None, blocking_timeout: float | None = None,
                token: str | bytes | None = None) -> bool:
        """Waits for the lock and returns whether it is held, then by this thread. The options as those of the lock;
        ``token`` is the owner, by default a new one for each request: two workers with one token both get the lock."""
        return finish(self._hold(self._request(sleep, blocking, blocking_timeout, token))) is not None

    def hold(self, sleep: float | None = None, blocking: bool | None = None, blocking_timeout: float | None = None,
             token: str | bytes | None = None) -> Hold:
        """As ``acquire``, and returns a hold of its own, which this object forgets; or raises LockError."""
        hold: Hold = finish(self._hold_or_error(self._request(sleep, blocking, blocking_timeout, token)))
        return hold

    do_acquire = blocking(LockOperations.do_acquire)
    release = blocking(LockOperations.release)
    do_release = blocking(LockOperations.do_release)
    locked = blocking(LockOperations.locked)
    owned = blocking(LockOperations.owned)
    extend = blocking(LockOperations.extend)
    do_extend = blocking(LockOperations.extend)
    reacquire = blocking(LockOperations.reacquire)
    do_reacquire = blocking(LockOperations.reacquire)
    guard = blocking(LockOperations.guard)
