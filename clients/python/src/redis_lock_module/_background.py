"""What a thread has of what an event loop is to tasks: work in the background, calls at a time, and bells.

A thread runs a coroutine that never gives way to a loop to its end: `finish`. redis-py connects and tries again as long
as it sees fit, and no other thread can interrupt it. So what a thread waits for no longer than it has time is done by
another one, which is left alone with it when the time is over: `Errand`.

Ctrl-C or a signal can interrupt the main thread anywhere, also just after it has acquired a lock of Python's, which then
stays locked, and every thread that needs it hangs. So threads share none here: a queue.SimpleQueue can be written to at
any time.
"""

import _thread
import functools
import heapq
import itertools
import logging
import os
import threading
import time
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Callable, Concatenate, Coroutine, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger("redis_lock_module")

_MOST_IDLE = 4  # so many threads are kept for the next errand; it takes longer to start one


def after_fork(forget: Callable[[], object]) -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


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
        self.ended = Bell()

    def start(self) -> None:
        try:
            _idle.pop().put(self)
        except IndexError:
            inbox: Inbox = SimpleQueue()
            inbox.put(self)
            # Not threading.Thread, whose start makes a RuntimeError of an interrupt. If there are too many threads, or
            # the interpreter is about to end, it is never done.
            with suppress(RuntimeError):
                _thread.start_new_thread(_run_errands, (inbox,))

    def run(self) -> None:
        try:
            self._outcome = [finish(self._work), None]
        except BaseException as error:
            self._outcome = [None, error]
        self.ended.set()

    def done(self) -> bool:
        return bool(self._outcome)

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


Inbox = SimpleQueue[Errand[Any]]
_idle: list[Inbox] = []
after_fork(_idle.clear)


def _run_errands(inbox: Inbox) -> None:
    while True:
        inbox.get().run()
        if len(_idle) >= _MOST_IDLE:
            return
        _idle.append(inbox)


Call = tuple[float, int, Callable[..., object], tuple[Any, ...]]  # when; in which order; what


class Clock:
    """A thread of the process that calls at their times what must not wait. (Two that begin at once share the work.)"""

    def __init__(self) -> None:
        self._begin()
        after_fork(self._begin)  # a child holds nothing, and its threads are gone

    def _begin(self) -> None:
        self._letters: SimpleQueue[Call] = SimpleQueue()
        self._numbers = itertools.count()
        self._runs = False

    def call_at(self, at: float, what: Callable[..., object], *args: Any) -> None:
        self._letters.put((at, next(self._numbers), what, args))
        if not self._runs:
            threading.Thread(target=self._run, name="redis-lock clock", daemon=True).start()
            self._runs = True

    def _run(self) -> None:
        calls: list[Call] = []
        while True:
            limit = None if not calls else max(0.0, min(calls[0][0] - time.monotonic(), threading.TIMEOUT_MAX))
            with suppress(Empty):
                heapq.heappush(calls, self._letters.get(timeout=limit))
            if calls and calls[0][0] <= time.monotonic():
                _, _, what, args = heapq.heappop(calls)
                try:
                    what(*args)
                except Exception:  # all that is still to come needs this thread
                    logger.exception("A hold was not looked after")


clock = Clock()
