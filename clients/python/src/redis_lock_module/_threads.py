"""Lock for redis.Redis, Redis over Sentinel, and redis.RedisCluster: how a thread sends and waits."""

from __future__ import annotations

import functools
import inspect
import math
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Awaitable, Callable, Coroutine, ParamSpec, TypeVar, Union

from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.client import Redis
from redis.cluster import RedisCluster
from redis.connection import Connection
from redis.exceptions import TimeoutError
from redis.lock import Lock as TheirLock

from ._clock import clock
from ._errand import Bell, Errand, blocking, finish
from ._holds import HoldBase, HoldOperations, leave
from ._link import Link
from ._lock import LockBase, LockOperations
from ._request import Request

P = ParamSpec("P")
R = TypeVar("R")

# From 8.1 on a read can be given a time of its own. Before, a connection can be asked whether there is something to read.
_READS_WITH_TIMEOUT = "timeout" in inspect.signature(Connection.read_response).parameters


class ThreadLink(Link):
    clients, clients_of_others = (Redis, RedisCluster), (AsyncRedis, AsyncRedisCluster)
    needs = "a Redis or a RedisCluster"
    mixed_up = "this Lock is for threads: for a client of redis.asyncio use redis_lock_module.asyncio.Lock"
    is_async, at_once, may_be_interrupted = False, {}, True
    me = releaser = staticmethod(threading.current_thread)
    place = staticmethod(lambda: None)
    new_event, new_bell, call_at = threading.Event, Bell, clock.call_at

    def is_single(self) -> bool:
        return getattr(self.client, "connection", None) is not None

    def node_pool(self) -> Any:
        if not self.is_cluster:
            return self.client.connection_pool
        return self.client.get_redis_connection(self.client.get_node_from_key(self.key)).connection_pool

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
    async def read(connection: Any, limit: float) -> Any:
        forever = None if limit == math.inf else limit
        if _READS_WITH_TIMEOUT:
            return connection.read_response(timeout=forever)
        if not connection.can_read(timeout=forever):
            raise TimeoutError("no reply")
        return connection.read_response()

    @staticmethod
    async def hear(connection: Any, seconds: float) -> Any:
        if not connection.can_read(timeout=seconds):
            return None
        return connection.read_response(disable_decoding=True, push_request=True)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def rest(self, request: Request, seconds: float) -> None:
        request.woken.wait(seconds)

    def has_ended(self, one: Any) -> bool:
        return one is None or not one.is_alive()

    def go_on(self, work: Coroutine[Any, Any, object]) -> Any:
        errand = Errand(work)
        if errand.start():
            return errand
        work.close()
        return None

    def begin(self, request: Request, work: Coroutine[Any, Any, object]) -> None:
        request.asking = Errand(work)
        if not request.asking.start():
            request.asking.run()

    async def wait(self, work: Any, seconds: float) -> bool:
        return bool(work.wait(seconds))

    async def leave(self, end: Callable[..., Coroutine[Any, Any, None]], *args: Any, waits: bool) -> None:
        if waits:
            await end(*args)

    async def see_through(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await work


class Hold(HoldBase[threading.Event]):
    """
    One grant of a lock: what ``lock.hold()`` returns, and what ``with`` gives. It can be used by any thread.

    ``with`` releases it at the end. It is not renewed any more when nothing refers to it.
    """

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, exc_value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        _leave(lambda: self, lambda _: self.release(), self._raises, exc_value)

    release = blocking(HoldOperations.release)
    renew = blocking(HoldOperations.renew)
    extend = blocking(HoldOperations.extend)
    reacquire = blocking(HoldOperations.reacquire)
    owned = blocking(HoldOperations.owned)
    locked = blocking(HoldOperations.locked)
    guard = blocking(HoldOperations.guard)

    def _let_go(self) -> None:
        self._forget()
        with suppress(Exception):
            finish(self._do_release())

    def _lose_in_the_background(self, why: str) -> None:
        """The caller's event may have been left locked by an interrupt, and the watch must not be held up."""
        async def lose() -> None:
            self._lose(why)

        self._unwatch()
        if self._link.go_on(lose()) is None:
            self._lose(why)

    def _tell(self) -> None:
        if self._on_lost:
            with suppress(RuntimeError):  # there are too many threads, or the interpreter is about to end
                threading.Thread(target=self._on_lost, name="redis-lock lost", daemon=True).start()


def _leave(find: Callable[[], Hold | None], release: Callable[[Hold | None], None], raises: bool,
           exc_value: BaseException | None) -> None:
    hold = None

    async def released() -> None:
        release(hold)

    try:
        hold = find()
        # An interrupt is not turned into an error: code that catches that would go on.
        finish(leave(hold, released, raises and (exc_value is None or isinstance(exc_value, Exception)), exc_value))
    except Exception:
        raise
    except BaseException:  # an interrupt: no code comes back to release it
        hold = hold or find()
        if hold is not None and not hold._life.is_over():
            hold._let_go()
        raise


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
            self.local.enter(hold)
            return hold
        except Exception:
            raise
        except BaseException:  # an interrupt after the grant
            interrupted = self._mine()
            if interrupted is not None and interrupted is not before:
                interrupted._let_go()
            raise

    def __exit__(self, exc_type: type[BaseException] | None, exc_value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        _leave(lambda: self.local.pick(entered=True),
               lambda hold: finish(self._release(hold)) if hold else self.release(),
               self.raise_on_release_error, exc_value)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """A decorator. A call raises LockError, and the function does not run, if the lock is not to be had in time."""
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)
        return call

    def acquire(self, sleep: float | None = None, blocking: bool | None = None, blocking_timeout: float | None = None,
                token: str | bytes | None = None) -> bool:
        """Waits for the lock and returns whether it is held, then by this thread. The options as those of the lock.

        ``token`` is the owner, by default a new one for each request. Two workers with one token are the same to the
        lock, and both get it."""
        return finish(self._acquire_by_the_rules(self._request(sleep, blocking, blocking_timeout, token)))

    def hold(self, sleep: float | None = None, blocking: bool | None = None, blocking_timeout: float | None = None,
             token: str | bytes | None = None) -> Hold:
        """Waits for the lock and returns a hold of its own, which this object forgets; raises LockError if it is not to
        be had in time. ``with lock.hold(blocking_timeout=5) as hold`` releases it at the end."""
        hold: Hold = finish(self._hold(self._request(sleep, blocking, blocking_timeout, token)))
        return hold

    do_acquire = blocking(LockOperations.do_acquire)
    release = blocking(LockOperations.release)
    do_release = blocking(LockOperations.do_release)
    locked = blocking(LockOperations.locked)
    owned = blocking(LockOperations.owned)
    extend = blocking(LockOperations.extend)
    do_extend = blocking(LockOperations.do_extend)
    reacquire = blocking(LockOperations.reacquire)
    do_reacquire = blocking(LockOperations.do_reacquire)
    guard = blocking(LockOperations.guard)
    _ours = {"do_acquire": do_acquire, "do_release": do_release}
