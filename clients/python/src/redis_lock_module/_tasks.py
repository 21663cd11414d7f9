"""Lock for redis.asyncio: Redis, Redis over Sentinel, and RedisCluster."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Coroutine, Literal, Optional, Set, Tuple, Type, Union
from weakref import ref

from redis.asyncio.cluster import RedisCluster
from redis.asyncio.lock import Lock as TheirLock
from redis.exceptions import (
    ConnectionError,
    LockError,
    LockNotOwnedError,
    ResponseError,
    TimeoutError,
)

from ._errors import DeadlockError, ends_a_wait, is_deadlock, is_not_owner, lets_nobody_block
from ._requests import Names, Request, Spelling, Term, local_to, milliseconds, room

logger = logging.getLogger(__name__)

_NO_TIMEOUT = 10.0  # of a client that has none: for how much longer than BLOCK to listen, in seconds
_FOR_EVER = 1e8  # asyncio's connections take None for "as long as the client says"
_PATIENCE = 2.0  # for how long a task that gives up waits for what it gives up, in seconds
_PAUSE = 0.1  # so long after a RELEASE the wait that it ends must have been answered
_background: Set["asyncio.Task[Any]"] = set()  # the loop itself keeps no task alive


def _go_on_in_background(work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    task = asyncio.ensure_future(work)
    _background.add(task)
    task.add_done_callback(_done)
    return task


def _done(task: "asyncio.Task[Any]") -> None:
    _background.discard(task)
    if not task.cancelled():
        task.exception()  # has been asked for


async def _see_through(task: "asyncio.Task[Any]", patience: float) -> None:
    """Waits for it, for so long at most, however often it is cancelled itself. (Whoever calls is on the way out.)"""
    until = time.monotonic() + patience
    while not task.done() and time.monotonic() < until:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=until - time.monotonic())


class Attempt(Request):
    """One attempt to acquire, which can be given up from outside."""

    def __init__(self, owner: bytes, ttl: float, sleep: float, patience: Optional[float]) -> None:
        super().__init__(owner, ttl, sleep, patience)
        self.blocks = False  # it may wait in the server by BLOCK
        self._given_up = asyncio.Event()

    def give_up(self) -> None:
        self._given_up.set()

    def is_over(self) -> bool:
        return self._given_up.is_set() or self.remaining() <= 0

    async def sleep(self) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._given_up.wait(), self.until_next())


class Hold:
    """One hold. Nobody renews it any more when its lock is gone."""

    def __init__(self, lock: "Lock", owner: bytes, fence: int, term: Term) -> None:
        self.owner, self.fence, self.term = owner, fence, term
        self.lost = asyncio.Event()
        self.worker: Optional["asyncio.Task[Any]"] = None  # cancelled when the hold is lost
        self.has_cancelled = False
        self._client = lock.redis
        self._words = lock._spelling.renew(owner, milliseconds(term.ttl))
        self._on_lost, self._name = lock.on_lost, lock.name
        if term.renews:
            self._end: Any = _go_on_in_background(Hold._keep(ref(self)))
        else:
            self._end = None
            self.watch()

    def watch(self) -> None:
        """Of a hold that nobody renews: it ends when its time does."""
        if self.term.renews:
            return
        if self._end:
            self._end.cancel()
        me = ref(self)

        def end() -> None:
            hold = me()
            if hold:
                hold.lose()

        self._end = asyncio.get_running_loop().call_later(max(0, self.term.ends - time.monotonic()), end)

    def stop(self) -> None:
        if self._end and self._end is not asyncio.current_task():
            self._end.cancel()

    @staticmethod
    async def _keep(me: "ref[Hold]") -> None:
        while True:
            hold = me()
            if hold is None:
                return
            now = time.monotonic()
            if now >= hold.term.ends:
                return hold.lose()
            if hold.term.due() <= now:
                await hold._renew()
            if hold.lost.is_set():
                return
            pause = min(hold.term.due(), hold.term.ends) - time.monotonic()
            del hold
            await asyncio.sleep(max(0, pause))

    async def _renew(self) -> None:
        asked = time.monotonic()
        try:
            held = await asyncio.wait_for(self._client.execute_command(*self._words), self.term.ends - asked)
        except Exception as error:  # of a client that was closed meanwhile: whatever there is
            logger.warning("Could not renew lock %r: %s", self._name, error)
            self.term.failed()
            return
        if held:
            self.term.prolonged(asked, self.term.ttl)
        else:
            self.lose()

    def lose(self) -> None:
        if self.lost.is_set():
            return
        self.lost.set()
        self.stop()
        if self.term.renews and self.worker and self.worker is not asyncio.current_task():
            self.has_cancelled = True
            self.worker.cancel()
        if self._on_lost:
            asyncio.get_running_loop().call_soon(self._on_lost)  # what it raises is the loop's to tell


class Lock(TheirLock):
    """
    redis-py's asyncio Lock, by LOCK.ACQUIRE: who waits stands in a queue in the server, and is served in order.

    Made by ``client.lock(name, lock_class=Lock)``, or by itself, which takes more:

    ``name`` may be a list of names: all of them are held together, or none.

    ``shared`` shares the lock with others who also share it; ``limit`` shares it while fewer than so many others do.

    ``renew`` renews the hold in the background, at a third of ``timeout``. By default that is done where ``timeout`` is
    None, with ``Lock.ttl`` seconds: such a lock is held until it is released, or until its process is gone.
    ``renew_for`` stops renewing after so many seconds. If a hold that is renewed is lost, the task inside of
    ``async with`` is cancelled, and LockNotOwnedError comes out of it.

    ``on_lost`` is called when the hold is found to be lost.

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
        self._never_lost = asyncio.Event()

    def register_scripts(self) -> None:
        pass

    async def __aenter__(self) -> "Lock":
        if await self.acquire():
            self.local.hold.worker = asyncio.current_task()
            return self
        raise LockError("Unable to acquire lock within the time specified", lock_name=self.name)

    async def __aexit__(
        self,
        exc_type: Optional[Type[BaseException]],
        exc_value: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        hold, ours, others = self.local.hold, False, 0
        if hold:
            hold.worker = None
        if hold and hold.has_cancelled:
            others = await _take_back_the_cancellation(has_arrived=exc_value is not None)
            ours = not others and isinstance(exc_value, (asyncio.CancelledError, type(None)))
        try:
            await self.release()
        except LockError:
            # A cancellation by others is not turned into an error: whoever catches that would go on.
            if ours or self.raise_on_release_error and (exc_value is None or isinstance(exc_value, Exception)):
                raise
            logger.warning("Lock was unlocked or no longer owned when exiting context manager.")
        if ours:
            # It was held all the same: the renewal was not answered in time.
            raise LockNotOwnedError("The lock could not be renewed in time", lock_name=self.name)
        if others and exc_value is None:
            raise asyncio.CancelledError

    @property
    def fence(self) -> Optional[int]:
        """The fencing number of the hold, for what it protects; None while nothing is held."""
        return self.local.hold.fence if self.local.token is not None and self.local.hold else None

    @property
    def lost(self) -> asyncio.Event:
        """Set when the last hold is found to be lost. A released one is not."""
        event: asyncio.Event = self.local.hold.lost if self.local.hold else self._never_lost
        return event

    async def acquire(
        self,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[float] = None,
        token: Optional[Union[str, bytes]] = None,
    ) -> bool:
        """As theirs."""
        blocking = self.blocking if blocking is None else blocking
        patience = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        owner = Request.fresh_owner() if token is None else self._encoder().encode(token)
        request = Attempt(owner, self.timeout or self.ttl, self.sleep, patience if blocking else 0)
        # In a task of its own, which is not cancelled in the middle of a reply.
        asking = _go_on_in_background(self._ask(request))
        try:
            asked, fence = await asyncio.shield(asking)
        except asyncio.CancelledError:
            await _see_through(_go_on_in_background(self._give_up(request, asking)), _PATIENCE)
            raise
        except BaseException as error:
            if request.left:
                _go_on_in_background(self._say_release(owner))
            if isinstance(error, ResponseError) and is_deadlock(error):
                raise DeadlockError(str(error), lock_name=self.name) from error
            raise
        if fence:
            self._begin(owner, fence, asked)
        return bool(fence)

    async def do_acquire(self, token: Any) -> bool:
        """Tries once."""
        return await self.acquire(blocking=False, token=token)

    def _begin(self, owner: bytes, fence: int, asked: float) -> None:
        renews = not self.timeout if self.renew is None else self.renew
        self.local.hold = Hold(self, owner, fence, Term(self.timeout or self.ttl, asked, renews, self.renew_for))
        self.local.token = owner

    def _encoder(self) -> Any:
        return self.redis.get_encoder()

    # To ask, and to wait

    async def _ask_once(self, words: Any) -> Any:
        """By the client itself: with its retries, and wherever the lock is by now."""
        return await self.redis.execute_command(*words)

    async def _ask(self, request: Attempt) -> Tuple[float, Optional[int]]:
        """When it was asked for, or granted if that was later; and the fencing number."""
        words = self._spelling.acquire(request.owner, request.ttl)
        while True:
            asked, request.left = time.monotonic(), True
            try:
                fence = await self._ask_once(words)
            except ResponseError:
                request.left = False
                raise
            request.left = bool(fence)
            if fence or request.is_over():
                return asked, fence
            if self.queue or self.queue is None and getattr(self.redis, "single_connection_client", False):
                return await self._keep_a_place(request)
            try:
                async with self._connection() as connection:
                    if connection:
                        fence = await self._block(connection, request)
                if not connection:
                    return await self._keep_a_place(request)
            except (ConnectionError, TimeoutError):
                pass  # what has become of it is found out by asking again
            except ResponseError as error:
                if not lets_nobody_block(error):
                    raise
                return await self._keep_a_place(request)
            if fence or request.is_over() and not request.left:
                return time.monotonic(), fence
            # Somebody has ended the wait, or nobody can wait just now. Then it is as theirs: ask now and then.
            await request.sleep()

    async def _block(self, connection: Any, request: Attempt) -> Optional[int]:
        words = self._spelling.acquire(request.owner, request.ttl, *request.block())
        limit = None
        if request.until is not None:
            limit = max(0, request.remaining()) + (getattr(connection, "socket_timeout", None) or _NO_TIMEOUT)
        try:
            request.left = request.blocks = True
            await connection.send_command(*words)
            # This call alone waits so long, whatever time the client has for others.
            fence: Optional[int] = await asyncio.wait_for(connection.read_response(timeout=_FOR_EVER), limit)
        except ResponseError as error:
            request.left = False
            if ends_a_wait(error):
                return None
            raise
        except asyncio.TimeoutError:
            await connection.disconnect(nowait=True)
            raise TimeoutError("no reply") from None
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        finally:
            request.blocks = False
        request.left = bool(fence)
        return fence

    async def _keep_a_place(self, request: Attempt) -> Tuple[float, Optional[int]]:
        words = self._spelling.acquire(request.owner, request.ttl, *request.queue())
        while True:
            asked, request.left = time.monotonic(), True
            reply = await self._ask_once(words)
            if reply and reply > 0:
                return asked, reply
            if request.is_over():
                await self._ask_once(self._spelling.release(request.owner))
                request.left = False
                return asked, None
            await request.sleep()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        """One of the pool's, or None if there is none to spare."""
        node: Any = None
        if isinstance(self.redis, RedisCluster):
            node = self.redis.get_node_from_key(self._spelling.names[0])  # type: ignore[arg-type]
            pool: Any = self.redis  # the nodes of a cluster have no pool to be known by
        else:
            pool = self.redis.connection_pool
        if not room.enter(pool, (node or pool).max_connections):
            yield None
            return
        connection = None
        try:
            connection = node.acquire_connection() if node else await pool.get_connection()
            yield connection
        finally:
            room.leave(pool)
            if connection is None:
                pass
            elif not node:
                await pool.release(connection)
            elif hasattr(node, "release"):
                node.release(connection)
            else:
                node._free.append(connection)  # as redis-py before 7.1 does it itself

    # To give up

    async def _give_up(self, request: Attempt, asking: "asyncio.Task[Any]") -> None:
        """Ends the request, hears what has become of it, and leaves nothing of it behind."""
        request.give_up()
        until = time.monotonic() + _PATIENCE
        while not asking.done() and time.monotonic() < until:
            if request.blocks:
                await self._say_release(request.owner)
            await asyncio.wait({asking}, timeout=_PAUSE)
        if not asking.done():
            asking.cancel()
            await asyncio.wait({asking}, timeout=_PATIENCE)
        if request.left:
            await self._say_release(request.owner)

    async def _say_release(self, owner: bytes) -> None:
        with suppress(Exception):  # why it has come to this is what counts
            await self._ask_once(self._spelling.release(owner))

    async def release(self) -> None:
        """As theirs. Whatever becomes of it, nobody renews the hold any more; a task that is cancelled sees it through.
        """
        owner = self.local.token
        if owner is None:
            raise LockError("Cannot release a lock that's not owned or is already unlocked.", lock_name=self.name)
        hold = self._hold_of(owner)
        if hold:
            hold.stop()
        releasing = _go_on_in_background(self._release(owner))
        try:
            await asyncio.shield(releasing)
        except asyncio.CancelledError:
            await _see_through(releasing, _PATIENCE)
            raise

    async def _release(self, owner: bytes) -> None:
        try:
            await self.do_release(owner)
        except LockNotOwnedError:
            self._forget(owner)
            raise
        self._forget(owner)

    def _forget(self, owner: bytes) -> None:
        if self.local.token == owner:  # and not that of a task that shares this lock, and has been granted it since
            self.local.token = None

    async def do_release(self, expected_token: Any) -> None:
        reply = await self._ask_once(self._spelling.release(expected_token))
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

    async def locked(self) -> bool:
        """Whether anybody holds it; of several, any of them."""
        for name in self._spelling.names:
            if await self.redis.exists(name):
                return True
        return False

    async def owned(self) -> bool:
        """Whether this lock holds it; of several, all of them."""
        owner = self.local.token
        if owner is None:
            return False
        for check in self._spelling.checks(owner):
            if not await self._ask_once(check):
                return False
        return True

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        if self.local.token is None:
            raise LockError("Cannot extend an unlocked lock", lock_name=self.name)
        if self.timeout is None:
            raise LockError("Cannot extend a lock with no timeout", lock_name=self.name)
        return await self.do_extend(additional_time, replace_ttl)

    async def do_extend(self, additional_time: float, replace_ttl: bool) -> Literal[True]:
        left = 0
        if not replace_ttl:
            lefts = [await self._ask_once(check) for check in self._spelling.checks(self.local.token)]
            if not all(one and one > 0 for one in lefts):
                raise self._not_owned("extend", self.local.token)
            left = min(lefts)
        await self._renew_now(left + milliseconds(additional_time), "extend")
        return True

    async def reacquire(self) -> Literal[True]:
        if self.local.token is None:
            raise LockError("Cannot reacquire an unlocked lock", lock_name=self.name)
        if self.timeout is None:
            raise LockError("Cannot reacquire a lock with no timeout", lock_name=self.name)
        return await self.do_reacquire()

    async def do_reacquire(self) -> Literal[True]:
        await self._renew_now(milliseconds(self.timeout or self.ttl), "reacquire")
        return True

    async def _renew_now(self, ttl: int, what: str) -> None:
        owner, asked = self.local.token, time.monotonic()
        if not await self._ask_once(self._spelling.renew(owner, ttl)):
            raise self._not_owned(what, owner)
        hold = self._hold_of(owner)
        if hold:
            hold.term.prolonged(asked, ttl / 1000)
            hold.watch()

    async def guard(self, *command: Any) -> Any:
        """Runs a command in the same instant in which the server sees that this lock is held, or not at all.

        Of several locks, by the first. Raises LockNotOwnedError if it is not held."""
        owner = self.local.token
        if owner is None:
            raise LockError("Cannot guard by an unlocked lock", lock_name=self.name)
        try:
            reply = await self._ask_once(self._spelling.guard(owner, command))
        except ResponseError as error:
            if is_not_owner(error):
                raise self._not_owned("guard by", owner) from error
            raise
        callback = getattr(self.redis, "response_callbacks", {}).get(str(command[0]).upper())
        return callback(reply) if callback else reply


async def _take_back_the_cancellation(has_arrived: bool) -> int:
    """Of the work, by this lock. How many others have cancelled it too."""
    if not has_arrived:  # the work was done before
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
    task: Any = asyncio.current_task()
    return int(task.uncancel()) if hasattr(task, "uncancel") else 0  # from Python 3.11 on
