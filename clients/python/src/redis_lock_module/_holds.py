"""What a hold is, whatever kind of code has it; and which of a lock object's holds is meant.

redis-py's interface has one lock object and one token. An object that several threads or tasks use at a time has
several holds here, and each of them finds its own: no release ends what another was granted.
"""

from __future__ import annotations

import math
import os
import threading
import time
from typing import Any, Callable, Generic, List, Optional, Type, TypeVar
from weakref import WeakKeyDictionary, ref

from redis.exceptions import LockError, LockNotOwnedError, ResponseError

from . import _options
from ._core import Core
from ._errors import NotOwner, ends_a_wait
from ._options import milliseconds
from ._request import Grant, Latest, Request, Term, fresh_owner
from ._words import Names, Spelling

TTL = 30.0  # of a lock without a timeout


class Hold:
    """One grant of a lock: of one owner, with one fencing number, until it is released or lost."""

    def __init__(self, core: Core, name: Any, token: bytes, grant: Grant, latest: Latest, term: Term,
                 event: Any, on_lost: Optional[Callable[[], object]], timeout: Optional[float], raises: bool) -> None:
        self._core, self.name, self._token, self._number, self._term = core, name, token, grant.fence, term
        self._latest = latest
        self._lost, self._on_lost, self._timeout, self._raises = event, on_lost, timeout, raises
        self._pid = os.getpid()
        self._how_lost: Optional[str] = None
        self._over = False  # released, or known to be lost and told to the caller that wanted to use it
        self._releasing: Any = None  # by whom
        self._is_going_on = False  # with a release that has failed, in the background
        self._untold = [True]  # empty once its loss is told

    def __repr__(self) -> str:
        what = "over" if self._over else "lost" if self._lost.is_set() or self._term.is_over() else "held"
        return f"<{type(self).__name__} of {self.name!r}: {what}, fence {self._number}>"

    @property
    def held(self) -> bool:
        """Whether it is held, as far as that is known without asking the server. A hold whose time is over is not: after
        a pause of the process the first look says so."""
        self._look()
        return not self._over and not self._is_going_on and not self._lost.is_set()

    @property
    def fence(self) -> Optional[int]:
        """The fencing number, for what the lock protects; None once it is not held any more, and without the module."""
        return self._number if self.held else None

    @property
    def token(self) -> Optional[bytes]:
        """The owner, as the server knows it; None once it is over."""
        return None if self._over else self._token

    @property
    def local(self) -> "Hold":
        """Where redis-py's Lock has its token."""
        return self

    # What is lost

    def _stop(self) -> None:
        """It is not renewed any more."""
        raise NotImplementedError

    def _tell(self) -> None:
        """It is lost: tell those that wanted to know."""
        raise NotImplementedError

    def _look(self) -> None:
        """At the clock, for what wakes up to do so may be late; and at the number that its owner has by now."""
        if self._over:
            return
        if self._term.is_over():
            self._lose(self._term.why_it_is_over())
        elif self._is_superseded():
            self._lose("was granted anew, with another fencing number")

    def _is_superseded(self) -> bool:
        """By a later grant to the same owner, whom the caller has chosen. The server compares owners, and no numbers: it
        would guard and release what is not this hold."""
        return self._latest.number != self._number

    def _lose(self, how: str) -> None:
        if self._lost.is_set():
            return
        self._how_lost = f"{how}, {max(0.0, time.monotonic() - self._term.began):.1f} seconds after it was acquired"
        self._stop()
        self._lost.set()
        try:
            self._untold.pop()
        except IndexError:  # another thread has found it out in this moment, and tells it
            return
        self._tell()

    def _lost_while_held(self, error_of_the_work: Optional[BaseException]) -> LockNotOwnedError:
        error = LockNotOwnedError(f"The lock was lost while it was held: it {self._how_lost}", lock_name=self.name)
        # That of the work is shown above it; a cancellation says nothing more.
        error.__suppress_context__ = not isinstance(error_of_the_work, Exception)
        return error

    def _not_owned(self, what: str) -> LockNotOwnedError:
        was_told = self._lost.is_set()
        if not was_told:
            self._lose(self._term.why_it_is_over() if self._term.is_over() else
                       "was broken, deleted or overwritten before its time was over")
        return LockNotOwnedError(f"Cannot {what} a lock that's no longer owned: it {self._how_lost}",
                                 lock_name=self.name)

    # What a thread and a task do alike

    async def _do_release(self) -> None:
        if self._pid != os.getpid():
            raise LockNotOwnedError(f"Cannot release a lock that process {self._pid} has acquired, and not this child",
                                    lock_name=self.name)
        if self._is_superseded():
            self._look()
            raise self._not_owned("release")
        try:
            held, again = await self._core.release(self._token)
        except Exception:  # what was not answered may have been heard, too
            self._is_going_on = True
            self._core.withdraw_in_background(self._token, self._ends())
            raise
        # Released at the first time, and the reply was lost.
        again = again or self._is_going_on
        if not held and not (again and not self._term.is_over() and not self._lost.is_set()):
            raise self._not_owned("release")

    def _ends(self) -> float:
        known = self._term.ends < math.inf  # not that of a token that was handed over
        return max(self._term.ends, self._term.may_last_until) if known else time.monotonic() + (self._timeout or TTL)

    def _is_forgotten(self) -> bool:
        return self._over or self._is_going_on and self._term.is_over()

    async def _do_release_once(self) -> None:
        """Forgotten when it is known what has become of it: what was not answered can be released again."""
        if self._over:
            raise LockError("Cannot release a lock that's not owned or is already unlocked.", lock_name=self.name)
        self._stop()
        try:
            await self._do_release()
            self._over = True
        except LockNotOwnedError:
            self._over = True
            raise

    async def _do_renew(self, ttl: int, what: str) -> None:
        asked, before, seconds = time.monotonic(), self._term.ends, ttl / 1000
        self._term.may_last_for(seconds)
        self._term.ends = min(before, asked + seconds)  # the server may hear of it, and we not of its reply
        try:
            held = not self._over and await self._core.renew(self._token, ttl)
        except BaseException as error:
            if isinstance(error, ResponseError) and not ends_a_wait(error):  # which may answer a second question
                self._term.ends = max(before, self._term.ends)
            elif self._term.ends < before:
                self._prolonged(asked, seconds)
            raise
        if not held:
            raise self._not_owned(what)
        self._prolonged(asked, seconds)

    def _prolonged(self, asked: float, ttl: float) -> None:
        raise NotImplementedError

    def _with_a_timeout(self, what: str) -> None:
        if self._over:
            raise LockError(f"Cannot {what} an unlocked lock", lock_name=self.name)
        if self._timeout is None:
            raise LockError(f"Cannot {what} a lock with no timeout", lock_name=self.name)

    async def _do_extend(self, additional_time: float, replace_ttl: bool) -> None:
        ttl = milliseconds(_options.span("additional_time", additional_time))
        if not replace_ttl:
            left = await self._core.remaining(self._token)
            if left is None or left < 0:
                raise self._not_owned("extend")
            ttl += left
        await self._do_renew(ttl, "extend")

    async def _do_owned(self) -> bool:
        return not self._over and await self._core.remaining(self._token) is not None

    async def _do_guard(self, command: Any) -> Any:
        if not command:
            raise TypeError("guard needs a command")
        if self._over or self._is_going_on:
            raise LockError("Cannot guard by an unlocked lock", lock_name=self.name)
        if not self.held:
            raise self._not_owned("guard by")
        try:
            return await self._core.guard(self._token, command)
        except NotOwner as error:
            raise self._not_owned("guard by") from error.__cause__


class Holds:
    """Those of one lock object (of one of its threads, if it is thread-local). `me` says who asks."""

    def __init__(self, me: Callable[[], Any], has_ended: Callable[[Any], bool], new_event: Callable[[], Any]) -> None:
        self._me, self._has_ended, self._new_event = me, has_ended, new_event
        self._all: List[Any] = []  # of (hold, who took it, whether by `with`)
        self._taken: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # events, of who will acquire
        self._last: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # events, of who has acquired
        self.handed_over: Optional[bytes] = None  # a token that the caller has set

    def _live(self) -> List[Any]:
        self._all = [one for one in self._all if not one[0]._is_forgotten()]
        me = self._me()  # who was interrupted while it released, and does so again
        return [one for one in self._all if one[0]._releasing is None or one[0]._releasing is me]

    def add(self, hold: Hold) -> None:
        self._live()
        me = self._me()
        self._all.append((hold, ref(me), []))
        self._last[me] = hold._lost

    def pick(self, entered: bool = False) -> Optional[Hold]:
        """My own, the latest first; else one whose thread or task has ended (it acquired for me); else the only one.
        """
        live, me = self._live(), self._me()
        if entered:
            live = [one for one in live if one[2]] or live
        mine = [one for one in live if one[1]() is me]
        if not mine:
            mine = [one for one in live if one[1]() is None or self._has_ended(one[1]())]
        if not mine and len(live) == 1:
            mine = live
        if mine:
            hold: Hold = mine[-1][0]
            return hold
        return None

    def enter(self, hold: Hold) -> None:
        for one in self._all:
            if one[0] is hold:
                one[2].append(True)

    def of(self, token: Any) -> Optional[Hold]:
        for one in reversed(self._all):
            if one[0]._token == token and not one[0]._over:
                hold: Hold = one[0]
                return hold
        return None

    def ambiguous(self) -> bool:
        return self.pick() is None and len(self._live()) > 1

    def forget(self) -> None:
        hold = self.pick()
        self.handed_over = None
        if hold:
            hold._stop()
            self._all = [one for one in self._all if one[0] is not hold]

    # An event that is taken before the lock is acquired is that of the hold that comes.

    def event_while_nothing_is_held(self) -> Any:
        me = self._me()
        last = self._last.get(me)
        if last is not None and last.is_set():
            return last
        return self._taken.setdefault(me, self._new_event())

    def event_for_a_new_hold(self) -> Any:
        """The one that was taken by me, or by another for whom I acquire."""
        me = self._me()
        event = self._taken.pop(me, None)
        if event is None and self._taken:
            event = self._taken.popitem()[1]
        if event is None:
            event = self._new_event()
        else:
            event.was_taken = True
        return event


class _Token:
    """redis-py keeps the token of a lock in `lock.local.token`."""

    holds: Holds

    @property
    def token(self) -> Optional[bytes]:
        if self.holds.handed_over is not None:
            return self.holds.handed_over
        hold = self.holds.pick()
        return hold._token if hold else None

    @token.setter
    def token(self, token: Optional[bytes]) -> None:
        if token is None:
            self.holds.forget()
        else:
            self.holds.handed_over = token


class Shared(_Token):
    def __init__(self, make: Callable[[], Holds]) -> None:
        self.holds = make()


class ThreadLocal(threading.local, _Token):
    """What one thread knows: a thread that has acquired nothing finds nothing."""

    def __init__(self, make: Callable[[], Holds]) -> None:
        self.holds = make()


Client = TypeVar("Client")


class LockBase(Generic[Client]):
    """The options of a lock, and its holds."""

    ttl = TTL

    _hold_class: Type[Any]

    def __init__(
        self,
        redis: Client,
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
        require_module: bool = False,
        max_queue: Optional[int] = None,
        owner_prefix: Optional[str] = None,
    ) -> None:
        # Not theirs: it would register scripts.
        self._check(redis)
        self.redis: Any = redis
        self.name: Any = name
        self.timeout = timeout
        _options.optional_span("timeout", timeout)
        self.sleep = _options.pause("sleep", sleep)
        self.blocking = _options.flag("blocking", blocking)
        self.blocking_timeout = blocking_timeout
        _options.patience("blocking_timeout", blocking_timeout)
        self.thread_local = _options.flag("thread_local", thread_local)
        self.raise_on_release_error = _options.flag("raise_on_release_error", raise_on_release_error)
        self.renew = _options.optional_flag("renew", renew)
        self.renew_for = _options.optional_span("renew_for", renew_for)
        self.on_lost = _options.function("on_lost", on_lost)
        self.queue = _options.optional_flag("queue", queue)
        self.owner_prefix = _options.owner_prefix(owner_prefix)
        _options.flag("require_module", require_module)
        self.local: Any = (ThreadLocal if self.thread_local else Shared)(self._new_holds)
        spelling = Spelling(name, shared, limit, max_queue)
        self._core = Core(self._link(spelling.name), spelling, self.queue, require_module)

    def register_scripts(self) -> None:
        """Needs none."""

    @staticmethod
    def _check(client: Any) -> None:
        """Two classes of the same name are easily mixed up."""
        raise NotImplementedError

    @staticmethod
    def _new_holds() -> Holds:
        raise NotImplementedError

    def _link(self, key: Any) -> Any:
        raise NotImplementedError

    def _request(self, sleep: Optional[float], blocking: Optional[bool], blocking_timeout: Optional[float],
                 token: Any) -> Request:
        blocking = self.blocking if blocking is None else _options.flag("blocking", blocking)
        patience = _options.patience(
            "blocking_timeout", self.blocking_timeout if blocking_timeout is None else blocking_timeout)
        owner = (fresh_owner(self.owner_prefix) if token is None
                 else _options.owner(self.redis.get_encoder().encode(token)))
        return self._new_request(owner, self._held_for(), _options.pause("sleep", self.sleep if sleep is None else sleep),
                                 patience if blocking else 0)

    def _new_request(self, owner: bytes, ttl: float, sleep: float, patience: Optional[float]) -> Request:
        raise NotImplementedError

    def _held_for(self) -> float:
        return _options.span("timeout", self.ttl if self.timeout is None else self.timeout)

    def _new_hold(self, token: bytes, grant: Optional[Grant], event: Any) -> Any:
        renews = self.timeout is None if self.renew is None else self.renew
        if grant is None:  # a token that was handed over: since when, and how long it lasts, is not known
            grant, term = Grant(time.monotonic(), None), Term(math.inf, time.monotonic(), False, None)
            latest = Latest(None)
        else:
            latest = self._core.latest(token, grant)
            term = Term(self._held_for(), grant.asked, renews, self.renew_for)
        return self._hold_class(self._core, self.name, token, grant, latest, term, event, self.on_lost, self.timeout,
                                self.raise_on_release_error)

    def _begin(self, token: bytes, grant: Optional[Grant]) -> Any:
        """A hold that this object remembers."""
        holds = self.local.holds
        hold = self._new_hold(token, grant, holds.event_for_a_new_hold())
        holds.handed_over = None
        holds.add(hold)
        return hold

    def _mine(self) -> Any:
        holds = self.local.holds
        if holds.handed_over is not None:
            return self._begin(holds.handed_over, None)
        return holds.pick()

    def _mine_or_error(self, words: str, token: Any = None) -> Any:
        hold = self._mine() if token is None else self.local.holds.of(token) or self._begin(token, None)
        if hold is None:
            if self.local.holds.ambiguous():
                words += " Several hold it by this object: use the hold that `lock.hold()` or `with` returns."
            raise LockError(words, lock_name=self.name)
        return hold

    def _not_acquired(self) -> LockError:
        return LockError("Unable to acquire lock within the time specified", lock_name=self.name)

    @property
    def held(self) -> bool:
        """Whether a hold of this thread or task is held, as far as that is known without asking the server."""
        hold = self._mine()
        return hold is not None and bool(hold.held)

    @property
    def fence(self) -> Optional[int]:
        """The fencing number of the hold, for what it protects; None while nothing is held, and without the module."""
        hold = self._mine()
        fence: Optional[int] = hold.fence if hold else None
        return fence
