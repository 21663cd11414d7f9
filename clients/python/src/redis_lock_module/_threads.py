"""Lock for redis.Redis, Redis over Sentinel, and redis.RedisCluster."""

from __future__ import annotations

import inspect
import logging
import math
import threading
import time
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Callable, Dict, Iterator, Literal, Optional, Type, Union

from redis.cluster import RedisCluster
from redis.connection import Connection
from redis.exceptions import (
    ConnectionError,
    LockError,
    LockNotOwnedError,
    RedisError,
    ResponseError,
    TimeoutError,
)
from redis.lock import Lock as TheirLock

from ._errors import DeadlockError, ends_a_wait, is_deadlock, is_not_owner, lets_nobody_block
from ._requests import Names, Request, Spelling, Term, local_to, milliseconds, room
from ._watch import watch

logger = logging.getLogger(__name__)

# From 8.1 on a read can be given a time of its own. Before, a connection can be asked whether there is something to read.
_READS_WITH_TIMEOUT = "timeout" in inspect.signature(Connection.read_response).parameters
_NO_TIMEOUT = 10.0  # of a client that has none: for how much longer than BLOCK to listen, in seconds


class Hold:
    """One hold of one thread. Nobody renews it any more when its thread or its lock is gone."""

    def __init__(self, lock: "Lock", owner: bytes, fence: int, term: Term) -> None:
        self.owner, self.fence, self.term = owner, fence, term
        self.lost = threading.Event()
        self._client = lock.redis  # and not the lock: nobody may renew what has been dropped
        self._words = lock._spelling.renew(owner, milliseconds(term.ttl))
        self._on_lost, self._name = lock.on_lost, lock.name
        self._renewing = False

    def next(self) -> float:
        return min(self.term.ends, math.inf if self._renewing else self.term.due())

    def act(self) -> None:
        """Called by the watch, which must not be held up: whatever takes time has a thread of its own."""
        if time.monotonic() >= self.term.ends:
            self.lose()
        elif not self._renewing:
            self._renewing = True
            try:
                threading.Thread(target=self._renew, name="redis-lock renewal", daemon=True).start()
            except RuntimeError:  # there are too many, or the interpreter is about to end
                self._renewing = False
                self.term.failed()

    def _renew(self) -> None:
        asked = time.monotonic()
        held: Optional[bool] = None
        try:
            held = self._client.execute_command(*self._words) == 1
        except Exception as error:  # of a client that was closed meanwhile: whatever there is
            logger.warning("Could not renew lock %r: %s", self._name, error)
        finally:
            with watch.changes():
                self._renewing = False
                if held:
                    self.term.prolonged(asked, self.term.ttl)
                elif held is None:
                    self.term.failed()
        if held is False and self in watch:
            self.lose()

    def lose(self) -> None:
        watch.remove(self)
        if not self.lost.is_set():
            self.lost.set()
            if self._on_lost:
                with suppress(RuntimeError):  # as above
                    threading.Thread(target=self._on_lost, name="redis-lock lost", daemon=True).start()


class Lock(TheirLock):
    """
    redis-py's Lock, by LOCK.ACQUIRE: who waits stands in a queue in the server, and is served in order.

    Made by ``client.lock(name, lock_class=Lock)``, or by itself, which takes more:

    ``name`` may be a list of names: all of them are held together, or none.

    ``shared`` shares the lock with others who also share it; ``limit`` shares it while fewer than so many others do.

    ``renew`` renews the hold in the background, at a third of ``timeout``. By default that is done where ``timeout`` is
    None, with ``Lock.ttl`` seconds: such a lock is held until it is released, or until its thread or process is gone.
    ``renew_for`` stops renewing after so many seconds.

    ``on_lost`` is called, in a thread of its own, when the hold is found to be lost.

    ``queue`` waits without a connection of its own, by asking again every ``sleep`` seconds; its place in the queue is
    kept meanwhile. By default that is done where the client has a single connection, and where half of the pool's
    connections wait already.
    """

    ttl = 30.0

    def __init__(
        self,
        redis: Any,
        name: Names,
        timeout: Optional[float] = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: Optional[float] = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
        *,
        shared: bool = False,
        limit: Optional[int] = None,
        renew: Optional[bool] = None,
        renew_for: Optional[float] = None,
        on_lost: Optional[Callable[[], object]] = None,
        queue: Optional[bool] = None,
    ) -> None:
        # Not theirs: it would register scripts.
        self.redis = redis
        self.name: Any = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.renew = renew
        self.renew_for = renew_for
        self.on_lost = on_lost
        self.queue = queue
        self.local = local_to(thread=self.thread_local)
        self._spelling = Spelling(name, shared, limit)
        self._never_lost = threading.Event()

    def register_scripts(self) -> None:
        pass

    def __enter__(self) -> "Lock":
        if self.acquire():
            return self
        raise LockError("Unable to acquire lock within the time specified", lock_name=self.name)

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            self.release()
        except LockError:
            # An interrupt is not turned into an error: whoever catches that would go on.
            if self.raise_on_release_error and (exc_value is None or isinstance(exc_value, Exception)):
                raise
            logger.warning("Lock was unlocked or no longer owned when exiting context manager.")

    @property
    def fence(self) -> Optional[int]:
        """The fencing number of the hold, for what it protects; None while nothing is held."""
        return self.local.hold.fence if self.local.token is not None and self.local.hold else None

    @property
    def lost(self) -> threading.Event:
        """Set when this thread's last hold is found to be lost. A released one is not."""
        hold = self.local.hold
        if hold is None:
            return self._never_lost
        if self.local.token is not None and not hold.lost.is_set():
            watch.add(hold)  # a hold that nobody renews is watched from the first question on
        event: threading.Event = hold.lost
        return event

    def acquire(
        self,
        sleep: Optional[float] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Optional[Union[str, bytes]] = None,
    ) -> bool:
        """As theirs. ``sleep`` only counts where the wait is not by BLOCK."""
        blocking = self.blocking if blocking is None else blocking
        patience = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        owner = Request.fresh_owner() if token is None else self.redis.get_encoder().encode(token)
        request = Request(owner, self.timeout or self.ttl, self.sleep if sleep is None else sleep,
                          patience if blocking else 0)
        try:
            asked, fence = self._ask(request)
            if fence:
                self._begin(owner, fence, asked)
            return bool(fence)
        except BaseException as error:
            self._give_up(request, error)
            if isinstance(error, ResponseError) and is_deadlock(error):
                raise DeadlockError(str(error), lock_name=self.name) from error
            raise

    def do_acquire(self, token: Any) -> bool:
        """Tries once."""
        return self.acquire(blocking=False, token=token)

    def _begin(self, owner: bytes, fence: int, asked: float) -> None:
        renews = not self.timeout if self.renew is None else self.renew
        hold = Hold(self, owner, fence, Term(self.timeout or self.ttl, asked, renews, self.renew_for))
        self.local.hold = hold
        if renews or self.on_lost:
            watch.add(hold)
        self.local.token = owner

    # To ask, and to wait

    def _ask_once(self, words: Any) -> Any:
        """By the client itself: with its retries, and wherever the lock is by now."""
        try:
            return self.redis.execute_command(*words)
        except Exception:
            raise
        except BaseException:
            self._close_what_is_half_read()
            raise

    def _close_what_is_half_read(self) -> None:
        """redis-py keeps a connection that is interrupted after its question and before its reply: the reply would be
        taken for that to the next question."""
        client: Any = self.redis
        if isinstance(self.redis, RedisCluster):
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

    def _ask(self, request: Request) -> "tuple[float, Optional[int]]":
        """When it was asked for, or granted if that was later; and the fencing number."""
        words = self._spelling.acquire(request.owner, request.ttl)
        while True:
            asked, request.left = time.monotonic(), True
            try:
                fence = self._ask_once(words)
            except ResponseError:
                request.left = False
                raise
            request.left = bool(fence)
            if fence or request.remaining() <= 0:
                return asked, fence
            if self.queue or self.queue is None and getattr(self.redis, "connection", None) is not None:
                return self._keep_a_place(request)
            try:
                with self._connection() as connection:
                    if connection:
                        fence = self._block(connection, request)
                if not connection:
                    return self._keep_a_place(request)
            except (ConnectionError, TimeoutError):
                pass  # what has become of it is found out by asking again
            except ResponseError as error:
                if not lets_nobody_block(error):
                    raise
                return self._keep_a_place(request)
            if fence or request.remaining() <= 0 and not request.left:
                return time.monotonic(), fence
            # Somebody has ended the wait, or nobody can wait just now. Then it is as theirs: ask now and then.
            time.sleep(request.until_next())

    def _block(self, connection: Any, request: Request) -> Optional[int]:
        words = self._spelling.acquire(request.owner, request.ttl, *request.block())
        limit = None
        if request.until is not None:
            limit = max(0, request.remaining()) + (getattr(connection, "socket_timeout", None) or _NO_TIMEOUT)
        try:
            request.left = True
            connection.send_command(*words)
            fence: Optional[int] = _read(connection, limit)
        except ResponseError as error:
            request.left = False
            if ends_a_wait(error):
                return None
            raise
        except BaseException:
            connection.disconnect()
            raise
        request.left = bool(fence)
        return fence

    def _keep_a_place(self, request: Request) -> "tuple[float, Optional[int]]":
        words = self._spelling.acquire(request.owner, request.ttl, *request.queue())
        while True:
            asked, request.left = time.monotonic(), True
            reply = self._ask_once(words)
            if reply and reply > 0:
                return asked, reply
            if request.remaining() <= 0:
                self._ask_once(self._spelling.release(request.owner))
                request.left = False
                return asked, None
            time.sleep(request.until_next())

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        """One of the pool's, or None if there is none to spare."""
        client: Any = self.redis
        if isinstance(self.redis, RedisCluster):
            client = client.get_redis_connection(client.get_node_from_key(self._spelling.names[0]))
        pool, connection = client.connection_pool, None
        if not room.enter(pool, pool.max_connections):
            yield None
            return
        try:
            connection = pool.get_connection()
            yield connection
        finally:
            room.leave(pool)
            if connection is not None:
                pool.release(connection)

    # To give up

    def _give_up(self, request: Request, error: BaseException) -> None:
        if not request.left:
            return
        if self.local.token == request.owner:
            self.local.token = self.local.hold = None
        if isinstance(error, RedisError):
            # The client has tried for long enough: whoever called has its error now.
            threading.Thread(target=self._say_release, args=(request.owner,), daemon=True).start()
        else:
            self._say_release(request.owner)

    def _say_release(self, owner: bytes) -> None:
        # Twice: what was said last by a connection that is closed now may be read after the first of them.
        for _ in range(2):
            with suppress(Exception):  # why it has come to this is what counts
                self._ask_once(self._spelling.release(owner))

    def release(self) -> None:
        """As theirs. Whatever becomes of it, nobody renews the hold any more."""
        owner = self.local.token
        if owner is None:
            raise LockError("Cannot release a lock that's not owned or is already unlocked.", lock_name=self.name)
        hold = self._hold_of(owner)
        if hold:
            hold.term.renews = False
            watch.remove(hold)
        try:
            self.do_release(owner)
        except LockNotOwnedError:
            self.local.token = None
            raise
        self.local.token = None

    def do_release(self, expected_token: Any) -> None:
        reply = self._ask_once(self._spelling.release(expected_token))
        if not self._spelling.all_released(reply):
            raise self._not_owned("release", expected_token)

    def _hold_of(self, owner: Any) -> Optional[Hold]:
        hold: Optional[Hold] = self.local.hold
        return hold if hold and hold.owner == owner else None

    def _not_owned(self, what: str, owner: Any) -> LockNotOwnedError:
        hold = self._hold_of(owner)
        if hold:
            hold.lose()
        return LockNotOwnedError(f"Cannot {what} a lock that's no longer owned", lock_name=self.name)

    # What is done with a hold

    def locked(self) -> bool:
        """Whether anybody holds it; of several, any of them."""
        return any(self.redis.exists(name) for name in self._spelling.names)

    def owned(self) -> bool:
        """Whether this lock holds it; of several, all of them."""
        owner = self.local.token
        return owner is not None and all(self._ask_once(check) for check in self._spelling.checks(owner))

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        if self.local.token is None:
            raise LockError("Cannot extend an unlocked lock", lock_name=self.name)
        if self.timeout is None:
            raise LockError("Cannot extend a lock with no timeout", lock_name=self.name)
        return self.do_extend(additional_time, replace_ttl)

    def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        left = 0
        if not replace_ttl:
            lefts = [self._ask_once(check) for check in self._spelling.checks(self.local.token)]
            if not all(one and one > 0 for one in lefts):
                raise self._not_owned("extend", self.local.token)
            left = min(lefts)
        self._renew_now(left + milliseconds(additional_time), "extend")
        return True

    def reacquire(self) -> Literal[True]:
        if self.local.token is None:
            raise LockError("Cannot reacquire an unlocked lock", lock_name=self.name)
        if self.timeout is None:
            raise LockError("Cannot reacquire a lock with no timeout", lock_name=self.name)
        return self.do_reacquire()

    def do_reacquire(self) -> Literal[True]:
        self._renew_now(milliseconds(self.timeout or self.ttl), "reacquire")
        return True

    def _renew_now(self, ttl: int, what: str) -> None:
        owner, asked = self.local.token, time.monotonic()
        if not self._ask_once(self._spelling.renew(owner, ttl)):
            raise self._not_owned(what, owner)
        hold = self._hold_of(owner)
        if hold:
            with watch.changes():
                hold.term.prolonged(asked, ttl / 1000)

    def guard(self, *command: Any) -> Any:
        """Runs a command in the same instant in which the server sees that this lock is held, or not at all.

        Of several locks, by the first. Raises LockNotOwnedError if it is not held."""
        owner = self.local.token
        if owner is None:
            raise LockError("Cannot guard by an unlocked lock", lock_name=self.name)
        try:
            reply = self._ask_once(self._spelling.guard(owner, command))
        except ResponseError as error:
            if is_not_owner(error):
                raise self._not_owned("guard by", owner) from error
            raise
        callbacks: Dict[str, Any] = getattr(self.redis, "response_callbacks", {})
        callback = callbacks.get(str(command[0]).upper())
        return callback(reply) if callback else reply


def _read(connection: Any, limit: Optional[float]) -> Any:
    """Reads for so many seconds, whatever time the client has for others: this call alone waits so long."""
    if _READS_WITH_TIMEOUT:
        return connection.read_response(timeout=limit)
    if not connection.can_read(timeout=limit):
        raise TimeoutError("no reply")
    return connection.read_response()
