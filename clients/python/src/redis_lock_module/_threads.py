"""Lock for redis.Redis, Redis over Sentinel, and redis.RedisCluster."""

from __future__ import annotations

import functools
import inspect
import logging
import math
import os
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Awaitable, Callable, Literal, Optional, ParamSpec, Type, TypeVar, Union

from redis.asyncio import Redis as AsyncRedis
from redis.asyncio.cluster import RedisCluster as AsyncRedisCluster
from redis.client import Redis
from redis.cluster import RedisCluster
from redis.connection import Connection
from redis.exceptions import LockError, LockNotOwnedError, RedisError, ResponseError, TimeoutError
from redis.lock import Lock as TheirLock

from . import _options
from ._bell import Bell
from ._deadline import in_time
from ._ear_of_threads import ear_of
from ._errors import DeadlockError, NotOwner, is_deadlock
from ._holds import Hold as AnyHold
from ._holds import Holds, LockBase
from ._link import Line, Link, Talk, T, finish
from ._options import milliseconds
from ._request import Request
from ._watch import watch
from ._withdrawals import withdrawals_of

logger = logging.getLogger("redis_lock_module")

P = ParamSpec("P")
R = TypeVar("R")

# From 8.1 on a read can be given a time of its own. Before, a connection can be asked whether there is something to read.
_READS_WITH_TIMEOUT = "timeout" in inspect.signature(Connection.read_response).parameters


class ThreadLine(Line):
    async def say(self, *words: Any, raw: bool = False, limit: Optional[float] = None) -> Any:
        # A check of its health would be made with the client's own patience.
        self.connection.send_command(*words, **({} if limit is None else {"check_health": False}))
        if limit is None:
            return self.connection.read_response(disable_decoding=raw)
        forever = None if limit == math.inf else limit
        if _READS_WITH_TIMEOUT:
            return self.connection.read_response(timeout=forever)
        if not self.connection.can_read(timeout=forever):
            raise TimeoutError("no reply")
        return self.connection.read_response()


async def _awaiting(work: Callable[[], Awaitable[T]]) -> T:
    return await work()


class ThreadLink(Link):
    def __init__(self, client: Any, key: Any) -> None:
        super().__init__(client, key)
        self.is_cluster = isinstance(client, RedisCluster)

    @property
    def pool(self) -> Any:
        return self.client if self.is_cluster else self.client.connection_pool

    def _node_pool(self) -> Any:
        if not self.is_cluster:
            return self.client.connection_pool
        return self.client.get_redis_connection(self.client.get_node_from_key(self.key)).connection_pool

    def connections(self) -> int:
        try:
            return int(self._node_pool().max_connections)
        except RedisError:  # it is not known just now where the key is
            return 0

    def is_single(self) -> bool:
        return getattr(self.client, "connection", None) is not None

    def ear(self) -> Any:
        return None if self.is_cluster else ear_of(self.pool)

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
        if self.is_cluster:
            pools = [node.redis_connection.connection_pool for node in client.get_nodes() if node.redis_connection]
        elif client.connection:
            client.connection.disconnect()
            return
        else:
            pools = [client.connection_pool]
        for pool in pools:
            if "inuse_connections" in inspect.signature(pool.disconnect).parameters:
                pool.disconnect(inuse_connections=False)
            else:  # a BlockingConnectionPool before redis-py 7
                pool.disconnect()

    async def within(self, request: Request, work: Callable[[], Awaitable[T]], left: Callable[[], object],
                     too_late: Callable[[], object]) -> T:
        if request.replies_until is None:
            return await work()
        return in_time(request.listens_for(), lambda: finish(_awaiting(work)), lambda _: too_late(), left)

    async def talk(self, talk: Talk[T], request: Optional[Request] = None) -> T:
        pool, connection, is_whole = self._node_pool(), None, False
        try:
            if request is None or request.replies_until is None:
                connection = pool.get_connection()
            else:
                connection = in_time(request.listens_for(), pool.get_connection,
                                     lambda late: late is not None and pool.release(late))
            line = ThreadLine(connection)
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
                    connection.disconnect()
                pool.release(connection)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def go_on(self, withdrawal: Any) -> None:
        withdrawals_of(self.pool).add(withdrawal)

    async def rest(self, request: Request, seconds: float) -> None:
        request.woken.wait(seconds)


class Hold(AnyHold):
    """
    One grant of a lock: what ``lock.hold()`` returns, and what ``with`` gives. It can be used by any thread.

    ``with`` releases it at the end. It is not renewed any more when nothing refers to it.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_watched = self._is_being_renewed = False
        if self._term.renews or self._on_lost or getattr(self._lost, "was_taken", False):
            self._be_watched()

    def __enter__(self) -> "Hold":
        return self

    def __exit__(self, exc_type: Optional[Type[BaseException]], exc_value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        _leave(lambda: self, lambda _: self.release(), self._raises, exc_value)

    @property
    def lost(self) -> threading.Event:
        """Set when it is found to be lost. One that is released before is not."""
        self._look()
        if not self._over and not self._lost.is_set() and not self._is_watched and self._pid == os.getpid():
            self._be_watched()  # one that is not renewed is watched from the first question on
        event: threading.Event = self._lost
        return event

    def release(self) -> None:
        """Ends it. Raises LockNotOwnedError if it was lost before."""
        finish(self._do_release_once())

    def _let_go(self) -> None:
        self._stop()
        self._over = True
        with suppress(Exception):
            finish(self._do_release())

    def renew(self, timeout: Optional[float] = None) -> None:
        """From now on it lasts for so many seconds: by default as many as at first."""
        finish(self._do_renew(milliseconds(_options.span("timeout", self._term.ttl if timeout is None else timeout)),
                              "renew"))

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Adds so many seconds to those that are left; with ``replace_ttl`` it lasts for so many from now on."""
        self._with_a_timeout("extend")
        finish(self._do_extend(additional_time, replace_ttl))
        return True

    def reacquire(self) -> Literal[True]:
        """From now on it lasts for as long as at first."""
        self._with_a_timeout("reacquire")
        assert self._timeout
        finish(self._do_renew(milliseconds(self._timeout), "reacquire"))
        return True

    def owned(self) -> bool:
        """Whether the server still sees it; of several locks, all of them."""
        return finish(self._do_owned())

    def locked(self) -> bool:
        """Whether the lock is held, by any owner; of several, any of them."""
        return finish(self._core.locked())

    def guard(self, *command: Any) -> Any:
        """Runs a command in the same instant in which the server sees that this is held, or not at all.

        It is sent once: if its connection breaks before the reply, the client's error says so, and it may have run.
        Of several locks, by the first. Raises LockNotOwnedError if it is not held."""
        return finish(self._do_guard(command))

    # For the watch

    def _be_watched(self) -> None:
        try:
            self._is_watched = True
            watch.look_at(self)
        except BaseException:
            self._is_watched = False
            raise

    def _next(self) -> float:
        return min(self._term.ends, math.inf if self._is_being_renewed else self._term.due())

    def _act(self) -> None:
        """The watch must not be held up, so what takes time has a thread of its own. So has a loss: it sets the caller's
        event, which an interrupt may have left locked."""
        if self._term.is_over():
            why = self._term.why_it_is_over()
            self._stop()
            if _in_a_thread("redis-lock loss", lambda: self._lose(why)):
                self._lose(why)
        elif not self._is_being_renewed:
            self._is_being_renewed = True
            error = _in_a_thread("redis-lock renewal", self._renew)
            if error:
                self._term.failed(error)
                self._is_being_renewed = False

    def _renew(self) -> None:
        asked = time.monotonic()
        self._term.is_being_renewed()
        try:
            if finish(self._core.renew(self._token, milliseconds(self._term.ttl))):
                self._term.prolonged(asked, self._term.ttl)
            elif self._is_watched:
                self._lose("was held by no owner, or by another, when it was renewed")
        except Exception as error:  # of a client that was closed meanwhile: whatever there is
            self._term.failed(error)
            logger.warning("Could not renew lock %r: %s", self.name, error)
        finally:
            self._is_being_renewed = False
            watch.look_at(self)

    def _prolonged(self, asked: float, ttl: float) -> None:
        self._term.prolonged(asked, ttl)
        if self._is_watched and self._pid == os.getpid():
            watch.look_at(self)

    def _stop(self) -> None:
        self._term.renews = self._is_watched = False

    def _tell(self) -> None:
        if self._on_lost:
            _in_a_thread("redis-lock lost", self._on_lost)


def _in_a_thread(name: str, work: Callable[[], object]) -> Optional[RuntimeError]:
    """The error if there are too many threads, or the interpreter is about to end."""
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError as error:
        return error
    return None


def _leave(find: Callable[[], Optional[Hold]], release: Callable[[Optional[Hold]], None], raises: bool,
           exc_value: Optional[BaseException]) -> None:
    hold = None
    try:
        hold = find()
        _release(hold, release, raises, exc_value)
    except Exception:
        raise
    except BaseException:  # an interrupt: no code comes back to release it
        hold = hold or find()
        if hold is not None and not hold._over:
            hold._let_go()
        raise


def _release(hold: Optional[Hold], release: Callable[[Optional[Hold]], None], raises: bool,
             exc_value: Optional[BaseException]) -> None:
    # An interrupt is not turned into an error: code that catches that would go on.
    raises = raises and (exc_value is None or isinstance(exc_value, Exception))
    was_told = hold is not None and hold._lost.is_set()
    try:
        try:
            release(hold)
        except LockError:
            if not was_told:
                raise
        if was_told and hold is not None:
            # The work was told so, whatever has come of the release.
            raise hold._lost_while_held(exc_value)
    except LockError:
        if raises:
            raise
        logger.warning("Lock was unlocked or no longer owned when exiting context manager.")


class Lock(LockBase[Union[Redis, RedisCluster]], TheirLock):
    """
    redis-py's Lock by the commands of the redis-lock module: waiters stand in a queue in the server, and are served in
    order, the moment the lock is free. Without the module it is an exclusive lock by SET NX, which waits by asking.

    Made by ``client.lock(name, ..., lock_class=Lock)``, or by itself, which takes more options:

    ``name``: of the lock, or a list of names, which are all held together or not at all.

    ``timeout``: for how many seconds it is held at most, unless it is extended or renewed. With None it expires after
    ``Lock.ttl`` (30) seconds, and is renewed until it is released, or until its thread or process is gone.

    ``blocking``, ``blocking_timeout``: whether, and for how many seconds at most, to wait; None waits for ever, and 0
    tries once. If the server does not answer by then, TimeoutError follows soon after.

    ``sleep``: the seconds between two questions, where the client has to ask again and again.

    ``thread_local``: by default a thread knows of its own holds only. With False threads share the object, each with a
    hold of its own; and one thread may release what another one has acquired.

    ``raise_on_release_error``: whether ``with`` raises if the lock was lost while it was held; else it logs that.

    ``shared``: shares the lock with others who also share it. ``limit``: shares it while fewer than so many others do.

    ``renew``: renews the hold in the background, at a third of ``timeout``; ``renew_for`` so many seconds at most.

    ``on_lost``: called, in a thread of its own, when the hold is found to be lost.

    ``queue``: waits without a connection of its own: it keeps a place in the queue, and is told when it is its turn. By
    default that is done where the client has a single connection, and where half of the pool's connections wait already.

    ``require_module``: raises ModuleMissingError on a server without the module.

    ``max_queue``: does not wait behind so many others or more, but raises ResponseError (``QUEUEFULL``) at once.

    ``owner_prefix``: what an owner begins with, before its uuid: by default the host's name and the process id.

    ``with lock as hold`` and ``hold = lock.hold()`` give a Hold, with the fencing number and with methods of its own.
    As a decorator a lock is held during each call of a function.
    """

    _hold_class = Hold

    @staticmethod
    def _check(client: Any) -> None:
        if isinstance(client, (AsyncRedis, AsyncRedisCluster)):
            raise TypeError("this Lock is for threads: for a client of redis.asyncio use redis_lock_module.asyncio.Lock")
        if not isinstance(client, (Redis, RedisCluster)):
            raise TypeError(f"a lock needs a client of redis-py, a Redis or a RedisCluster, not {client!r}")

    @staticmethod
    def _new_holds() -> Holds:
        return Holds(threading.current_thread, lambda thread: not thread.is_alive(), threading.Event)

    def _link(self, key: Any) -> Any:
        return ThreadLink(self.redis, key)

    def _new_request(self, owner: bytes, ttl: float, sleep: float, patience: Optional[float]) -> Request:
        return Request(owner, ttl, sleep, patience, Bell())

    def __enter__(self) -> Hold:  # type: ignore[override]
        before = self._mine()
        try:
            if not self.acquire():
                raise self._not_acquired()
            hold: Hold = self._mine()
            self.local.holds.enter(hold)
            return hold
        except Exception:
            raise
        except BaseException:  # an interrupt after the grant
            interrupted = self._mine()
            if interrupted is not None and interrupted is not before:
                interrupted._let_go()
            raise

    def __exit__(self, exc_type: Optional[Type[BaseException]], exc_value: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        _leave(lambda: self.local.holds.pick(entered=True),
               lambda hold: self._release(hold) if hold else self.release(), self.raise_on_release_error, exc_value)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """A decorator. A call raises LockError, and the function does not run, if the lock is not to be had in time."""
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)
        return call

    @property
    def lost(self) -> threading.Event:
        """Set when this thread's hold is found to be lost; one that is released before is not. Taken while nothing is
        held, it is that of the hold that comes."""
        hold: Optional[Hold] = self._mine()
        event: threading.Event = hold.lost if hold else self.local.holds.event_while_nothing_is_held()
        return event

    def acquire(
        self,
        sleep: Optional[float] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Optional[Union[str, bytes]] = None,
    ) -> bool:
        """Waits for the lock and returns whether it is held, then by this thread. The options as those of the lock.

        ``token`` is the owner, by default a new one for each request. Two workers with one token are the same to the
        lock, and both get it."""
        request = self._request(sleep, blocking, blocking_timeout, token)
        if type(self).do_acquire is not Lock.do_acquire:
            return self._acquire_by_do_acquire(request)
        return self._acquire(request, self._begin) is not None

    def hold(
        self,
        sleep: Optional[float] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Optional[Union[str, bytes]] = None,
    ) -> Hold:
        """Waits for the lock and returns a hold of its own, which this object forgets; raises LockError if it is not to
        be had in time. ``with lock.hold(blocking_timeout=5) as hold`` releases it at the end."""
        hold = self._acquire(self._request(sleep, blocking, blocking_timeout, token),
                             lambda token, grant: self._new_hold(token, grant, threading.Event()))
        if hold is None:
            raise self._not_acquired()
        return hold

    def _acquire(self, request: Request, begin: Any) -> Optional[Hold]:
        try:
            grant = finish(self._core.acquire(request))
            hold: Optional[Hold] = begin(request.owner, grant) if grant else None
            return hold
        except BaseException as error:
            self._give_up(request, error)
            if is_deadlock(error):
                raise DeadlockError(str(error), lock_name=self.name) from error
            raise

    def do_acquire(self, token: Any) -> bool:
        """Tries once. A class that overrides it is asked every ``sleep`` seconds, as by redis-py."""
        request = self._new_request(_options.owner(self.redis.get_encoder().encode(token)), self._held_for(),
                                    self.sleep, 0)
        return self._acquire(request, self._begin) is not None

    def _acquire_by_do_acquire(self, request: Request) -> bool:
        while not self.do_acquire(request.owner):
            if request.is_over():
                return False
            time.sleep(request.for_a_while(request.pause))
        return True

    # To give up

    def _give_up(self, request: Request, error: BaseException) -> None:
        if not request.left:
            return
        hold = self.local.holds.of(request.owner)
        if hold:
            hold._stop()
            hold._over = True
        # Twice: what was said last by a connection that is closed now may be read after the first of them. But a client
        # that has an error has tried for long enough: the caller has the error now.
        if isinstance(error, RedisError) or not all(finish(self._core.withdraw(request.owner)) for _ in range(2)):
            self._core.withdraw_in_background(request.owner, request.may_be_left_until())

    def release(self) -> None:
        """Ends the hold of this thread. Whatever becomes of it, it is not renewed any more."""
        self._release(self._mine_or_error("Cannot release a lock that's not owned or is already unlocked."))

    def _release(self, hold: Hold) -> None:
        hold._releasing = threading.current_thread()
        hold._stop()
        try:
            self.do_release(hold._token)
            hold._over = True
        except LockNotOwnedError:
            hold._over = True
            raise
        finally:
            hold._releasing = None

    def do_release(self, expected_token: Any) -> None:
        hold = self._mine_or_error("", self.redis.get_encoder().encode(expected_token))
        finish(hold._do_release())

    # What is done with a hold

    def locked(self) -> bool:
        """Whether it is held, by any owner; of several, any of them."""
        return finish(self._core.locked())

    def owned(self) -> bool:
        """Whether this thread holds it; of several, all of them."""
        hold = self._mine()
        return hold is not None and bool(hold.owned())

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Adds so many seconds to those that are left; with ``replace_ttl`` it lasts for so many from now on."""
        self._mine_or_error("Cannot extend an unlocked lock")._with_a_timeout("extend")
        return self.do_extend(additional_time, replace_ttl)

    def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        finish(self._mine_or_error("Cannot extend an unlocked lock")._do_extend(additional_time, replace_ttl))
        return True

    def reacquire(self) -> Literal[True]:
        """From now on it lasts for ``timeout`` seconds again."""
        self._mine_or_error("Cannot reacquire an unlocked lock")._with_a_timeout("reacquire")
        return self.do_reacquire()

    def do_reacquire(self) -> Literal[True]:
        hold = self._mine_or_error("Cannot reacquire an unlocked lock")
        finish(hold._do_renew(milliseconds(self._held_for()), "reacquire"))
        return True

    def guard(self, *command: Any) -> Any:
        """Runs a command in the same instant in which the server sees that this lock is held, or not at all.

        It is sent once: if its connection breaks before the reply, the client's error says so, and it may have run.
        Of several locks, by the first. Raises LockNotOwnedError if it is not held."""
        return self._mine_or_error("Cannot guard by an unlocked lock").guard(*command)
