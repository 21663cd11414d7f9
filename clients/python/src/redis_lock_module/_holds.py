"""What a hold is, whatever kind of code has it: what a task awaits of it, and a thread waits for."""

import logging
import math
import time
from typing import Any, Callable, Generic, Literal, TypeVar, cast
from weakref import ref

from redis.exceptions import LockError, LockNotOwnedError, ResponseError

from . import _options
from ._core import Core
from ._errors import ENDS_A_WAIT, MAY_HAVE_CHANGED, NotOwner, says
from ._options import milliseconds
from ._request import process
from ._server import Latest
from ._state import Life, State
from ._withdrawals import Withdrawal

logger = logging.getLogger("redis_lock_module")

Event = TypeVar("Event")


class HoldBase(Generic[Event]):
    """One grant of a lock: of one owner, with one fencing token, until it is released or lost."""

    _tell: Callable[[], None]  # it is lost: sets the events, and tells those that wanted to know

    def __init__(self, lock: Any, token: bytes, number: int | None, life: Life, latest: Latest | None) -> None:
        self._core: Core = lock._core
        self._link, self.name, self._token, self._number = self._core.link, lock.name, token, number
        self._life, self._latest, self._on_lost = life, latest, lock.on_lost
        self._events: list[Any] = []  # the first counts; made when it is asked for
        self._timeout: float | None = lock.timeout
        self._raises, self._pid = lock.raise_on_release_error, process.id
        self._taker = ref(self._link.me())
        self._releaser: Any = None
        self._was_renewed, self._timer = life.renews, None
        self._alarm = math.inf  # when it has to act; infinite for one that is not watched
        if life.renews or self._on_lost:
            self._watch()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name!r}: {self._life.state.value}, fence {self._number}>"

    @property
    def held(self) -> bool:
        """Whether it is held, as far as that is known without asking the server. A hold whose time is over is not: after
        a pause of the process the first look says so."""
        self._look()
        return self._life.state in (State.HELD, State.RELEASING)

    @property
    def fence(self) -> int | None:
        """The fencing token, for what the lock protects; None once it is not held any more, and without the module."""
        return self._number if self.held else None

    @property
    def token(self) -> bytes | None:
        """The owner, as the server knows it; None once it is over."""
        return None if self._life.is_over() else self._token

    @property
    def local(self) -> Any:
        """Where redis-py's Lock has its token."""
        return self

    @property
    def lost(self) -> Event:
        """An event, which is set when it is found to be lost. One that is released before is not."""
        if not self._events:
            self._events.append(self._link.new_event())
        event = self._events[0]
        if self._look():
            event.set()
        elif self._alarm == math.inf and self._pid == process.id:
            self._watch()  # one that is not renewed is watched from the first question on
        return cast(Event, event)

    # What is lost

    def _look(self) -> bool:
        """Whether it is lost, by the clock, for what wakes up to look at that may be late; and by the number that its
        owner has by now."""
        if not self._life.is_over():
            if self._life.is_past():
                self._lose(self._life.why_past())
            elif self._is_superseded():
                self._lose("was granted anew, with another fencing token")
        return self._life.is_lost()

    def _is_superseded(self) -> bool:
        """By a later grant to the same owner, whom the caller has chosen. The server compares owners, and no numbers: it
        would guard and release what is not this hold."""
        return self._latest is not None and self._latest.number != self._number

    def _lose(self, why: str) -> None:
        if not self._life.is_lost() and self._life.lose(why):
            self._unwatch()
            self._tell()

    def _not_owned(self, what: str) -> LockNotOwnedError:
        if not self._life.is_over():
            self._look()
            self._lose("was broken, deleted or overwritten before its time was over")
        return LockNotOwnedError(f"Cannot {what} a lock that's no longer owned: it {self._life.why_lost()}",
                                 lock_name=self.name)

    # To renew it, and to notice that it is lost

    def _watch(self) -> None:
        """From now on, or with another time at which it has to act."""
        self._unwatch()
        try:
            while self._alarm != self._next():  # which another thread may change meanwhile
                at = self._alarm = self._next()
                if at < math.inf:
                    self._timer = self._link.call_at(at, _ring, ref(self), at)
        except BaseException:  # an interrupt
            self._alarm = math.inf
            raise

    def _next(self) -> float:
        life = self._life
        return math.inf if life.is_over() or life.is_lost() else min(life.ends, life.due())

    def _unwatch(self) -> None:
        self._alarm = math.inf  # other calls mean nothing
        if self._timer:
            self._timer.cancel()

    async def _renew_in_the_background(self, asked: float) -> None:
        try:
            if await self._core.renew(self._token, milliseconds(self._life.ttl)):
                self._life.renewed(asked, self._life.ttl)
            elif self._life.renews:
                self._lose("was held by no owner, or by another, when it was renewed")
        except Exception as error:  # of a client that was closed meanwhile: whatever there is
            self._life.renewal_failed(error)
            logger.warning("Could not renew lock %r: %s", self.name, error)
        finally:
            if self._life.renews:
                self._watch()

    # By the caller

    async def _do_renew(self, ttl: int, what: str) -> None:
        life, seconds = self._life, ttl / 1000
        before, asked = life.ends, life.asks(seconds)
        life.ends = min(before, asked + seconds)  # until there is a reply
        try:
            held = not life.is_over() and await self._core.renew(self._token, ttl)
        except BaseException as error:
            # Those of ENDS_A_WAIT may answer a second question.
            if isinstance(error, ResponseError) and not says(error, *ENDS_A_WAIT, *MAY_HAVE_CHANGED):
                life.ends = max(before, life.ends)
            elif life.ends < before:
                self._renewed(asked, seconds)
            raise
        if not held:
            if life.state is State.RELEASING:
                raise LockNotOwnedError(f"Cannot {what} a lock that is being released", lock_name=self.name)
            raise self._not_owned(what)
        self._renewed(asked, seconds)

    def _renewed(self, asked: float, ttl: float) -> None:
        self._life.renewed(asked, ttl)
        if self._alarm < math.inf and self._pid == process.id:
            self._watch()

    def _timeout_or_error(self, what: str) -> float:
        if self._life.is_over():
            raise LockError(f"Cannot {what} an unlocked lock", lock_name=self.name)
        if self._timeout is None:
            raise LockError(f"Cannot {what} a lock with no timeout", lock_name=self.name)
        return self._timeout

    async def _do_release(self) -> None:
        """It is over when it is known what has become of it: what was not answered can be released again."""
        life, self._releaser = self._life, self._link.me()  # for a task, the one that sees it through
        try:
            if self._pid != process.id:
                raise LockNotOwnedError(f"Cannot release a lock that process {self._pid} has acquired, and not this "
                                        "child", lock_name=self.name)
            if self._is_superseded():
                raise self._not_owned("release")
            held, again = await self._core.release(self._token)
            # Or it was released at the first time, and the reply was lost.
            if not held and (life.is_lost() or life.is_past() or not again and life.state is not State.UNSURE):
                raise self._not_owned("release")
            life.releases(State.OVER)
        except LockNotOwnedError:
            life.releases(State.OVER)
            raise
        except Exception:  # what was not answered may have been heard, too
            life.releases(State.UNSURE)
            Withdrawal(self._core, self._token, life.may_last_until())
            raise
        finally:
            self._releaser = None

    def _forget(self) -> None:
        self._unwatch()
        self._life.releases(State.OVER)


class HoldOperations(HoldBase[Event]):
    """What is done with a hold, as a task does it; what a thread does is made of this."""

    async def release(self) -> None:
        """Ends it; a task that is cancelled meanwhile sees it through. Raises LockNotOwnedError if it was lost before.
        """
        if self._life.is_over():
            raise LockError("Cannot release a lock that's not owned or is already unlocked.", lock_name=self.name)
        self._releaser = self._link.me()
        self._unwatch()
        self._life.releases(State.RELEASING)
        await self._link.see_through(self._do_release())

    async def renew(self, timeout: float | None = None) -> None:
        """From now on it lasts for so many seconds: by default as many as at first."""
        seconds = _options.span("timeout", self._life.ttl if timeout is None else timeout)
        await self._do_renew(milliseconds(seconds), "renew")

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        """Adds so many seconds to those that are left; with ``replace_ttl`` it lasts for so many from now on."""
        self._timeout_or_error("extend")
        ttl = milliseconds(_options.span("additional_time", additional_time))
        if not replace_ttl:
            left = await self._core.remaining(self._token)
            if left is None or left < 0:
                raise self._not_owned("extend")
            ttl += left
        await self._do_renew(ttl, "extend")
        return True

    async def reacquire(self) -> Literal[True]:
        """From now on it lasts for as long as at first."""
        await self._do_renew(milliseconds(self._timeout_or_error("reacquire")), "reacquire")
        return True

    async def owned(self) -> bool:
        """Whether the server still sees it; of several locks, all of them."""
        return not self._life.is_over() and await self._core.remaining(self._token) is not None

    async def locked(self) -> bool:
        """Whether the lock is held, by any owner; of several, any of them."""
        return await self._core.locked()

    async def guard(self, *command: Any) -> Any:
        """Runs a command only while the server sees that this is held, atomically.

        It is sent once: if its connection breaks before the reply, the client's error says so, and it may have run.
        Of several locks, by the first. Raises LockNotOwnedError if it is not held."""
        if not command:
            raise TypeError("guard needs a command")
        if self._life.state in (State.UNSURE, State.LAPSED, State.OVER):
            raise LockError("Cannot guard by an unlocked lock", lock_name=self.name)
        if not self.held:
            raise self._not_owned("guard by")
        try:
            return await self._core.guard(self._token, command)
        except NotOwner as error:
            raise self._not_owned("guard by") from error.__cause__

    async def _leave(self, raises: bool, error_of_the_work: BaseException | None) -> None:
        """A `with`."""
        was_told = self._look()
        try:
            try:
                await HoldOperations.release(self)
            except LockError:
                if not was_told:
                    raise
            if was_told:  # whatever has come of the release
                error = LockNotOwnedError(f"The lock was lost while it was held: it {self._life.why_lost()}",
                                          lock_name=self.name)
                # That of the work is shown above it; a cancellation says nothing more.
                error.__suppress_context__ = not isinstance(error_of_the_work, Exception)
                raise error
        except LockError:
            if raises:
                raise
            logger.warning("Lock was unlocked or no longer owned when exiting context manager.")


def is_interrupt(error: BaseException | None) -> bool:
    """Or a cancellation. It is not turned into an error: code that catches that would go on."""
    return error is not None and not isinstance(error, Exception)


def _ring(me: ref[HoldBase[Any]], at: float) -> None:
    """It is time. Weak: a hold that is dropped, or whose thread ends, is not renewed."""
    hold = me()
    if hold is None or hold._alarm != at or hold._look():
        return
    if hold._life.due() <= time.monotonic():
        hold._link.go_on(hold._renew_in_the_background(hold._life.renewal_begins()))
    hold._watch()
