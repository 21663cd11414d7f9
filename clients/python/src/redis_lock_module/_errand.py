"""How a thread does what a task does: it runs a coroutine to its end, and has another thread run one.

redis-py connects and tries again as long as it sees fit, and no other thread can interrupt it. So what a thread waits for
no longer than it has time is done by another one, which is left alone with it when the time is over."""

from __future__ import annotations

import _thread
import functools
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Callable, Concatenate, Coroutine, Generic, ParamSpec, TypeVar

from ._process import after_fork

P = ParamSpec("P")
T = TypeVar("T")

_MOST_IDLE = 4  # so many threads are kept for the next that comes; it takes longer to start one

Inbox = SimpleQueue["Errand[Any]"]
_idle: list[Inbox] = []
after_fork(_idle.clear)


def finish(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a thread has no event loop to give way to")


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """What a task awaits, as a method that a thread calls."""
    @functools.wraps(method)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return finish(method(self, *args, **kwargs))
    return call


class Bell:
    """Like threading.Event, except that a wait also clears it, and that an interrupt of the thread that waits never locks
    out the one that rings."""

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    def set(self) -> None:
        with suppress(RuntimeError):  # it has rung already
            self._silence.release()

    def clear(self) -> None:
        self._silence.acquire(blocking=False)

    def wait(self, seconds: float) -> None:
        self._silence.acquire(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX)))


class Errand(Generic[T]):
    """Work that another thread does: what asyncio's Task is to a task."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._outcome: list[Any] = []  # the result, the error
        self._bell = Bell()

    def start(self) -> bool:
        """False if there are too many threads, or the interpreter is about to end."""
        try:
            _idle.pop().put(self)
        except IndexError:
            inbox: Inbox = SimpleQueue()
            inbox.put(self)
            try:
                # Not threading.Thread, whose start makes a RuntimeError of an interrupt.
                _thread.start_new_thread(_run, (inbox,))
            except RuntimeError:
                return False
        return True

    def run(self) -> None:
        try:
            self._outcome = [finish(self._work), None]
        except BaseException as error:
            self._outcome = [None, error]
        self._bell.set()

    def cancel(self) -> bool:
        """No thread can be."""
        return False

    def done(self) -> bool:
        return bool(self._outcome)

    def wait(self, seconds: float) -> bool:
        if not self._outcome:
            self._bell.wait(seconds)
        return self.done()

    def result(self) -> T:
        result: T
        result, error = self._outcome
        if error is not None:
            try:
                raise error
            finally:
                del error
                self._outcome[1] = None  # it refers to this frame
        return result


def _run(inbox: Inbox) -> None:
    while True:
        inbox.get().run()
        if len(_idle) >= _MOST_IDLE:
            return
        _idle.append(inbox)
