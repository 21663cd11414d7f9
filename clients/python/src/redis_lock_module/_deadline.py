"""What a thread waits for no longer than it has time: redis-py connects and tries again as long as it sees fit, and no
other thread can interrupt it. So another thread does that, and is left alone with it when the time is over."""

from __future__ import annotations

import _thread
import os
from queue import SimpleQueue
from typing import Any, Callable, Generic, List, Optional, TypeVar

from redis.exceptions import TimeoutError

from ._bell import Bell

T = TypeVar("T")

_MOST_IDLE = 4  # so many threads are kept for the next that comes; it takes longer to start one

Inbox = SimpleQueue["Errand[Any]"]
_idle: List[Inbox] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)


class Errand(Generic[T]):
    def __init__(self, work: Callable[[], T], too_late: Callable[[Optional[T]], object],
                 left: Callable[[], object]) -> None:
        self._work, self._too_late, self._left = work, too_late, left
        self._result: Optional[T] = None
        self._error: Optional[BaseException] = None
        self._bell = Bell()
        self._race: List[bool] = [True]  # taken by the end of the work, or by the end of the wait

    def run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error
        if self._is_first():
            self._bell.set()
        else:
            self._too_late(self._result)

    def wait(self, seconds: float) -> T:
        try:
            self._bell.wait(seconds)
            in_time = not self._race
            if not in_time:
                self._leave()
        except BaseException:  # an interrupt
            self._leave()
            raise
        if not in_time:
            raise TimeoutError("no reply in time")
        try:
            if self._error is not None:
                raise self._error
            result: T = self._result  # type: ignore[assignment]
            return result
        finally:
            self._error = None  # it refers to this frame

    def _leave(self) -> None:
        self._left()  # before the work can end too late
        if not self._is_first():
            self._too_late(self._result)

    def _is_first(self) -> bool:
        try:
            return self._race.pop()
        except IndexError:
            return False


def in_time(seconds: float, work: Callable[[], T], too_late: Callable[[Optional[T]], object],
            left: Callable[[], object] = lambda: None) -> T:
    """What comes of the work. If that takes longer, `left` is called, and TimeoutError raised; `too_late` gets what has
    come of it at last, None if that was an error."""
    if seconds <= 0:
        raise TimeoutError("no reply in time")
    errand = Errand(work, too_late, left)
    try:
        _idle.pop().put(errand)
    except IndexError:
        inbox: Inbox = SimpleQueue()
        inbox.put(errand)
        try:
            # Not threading.Thread, whose start makes a RuntimeError of an interrupt.
            _thread.start_new_thread(_run, (inbox,))
        except RuntimeError:  # there are too many threads, or the interpreter is about to end
            errand.run()
    return errand.wait(seconds)


def _run(inbox: Inbox) -> None:
    while True:
        inbox.get().run()
        if len(_idle) >= _MOST_IDLE:
            return
        _idle.append(inbox)
