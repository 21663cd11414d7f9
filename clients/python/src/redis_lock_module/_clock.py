"""One thread of the process, which calls at their times what must not wait: as an event loop does for tasks.

Ctrl-C or a signal can interrupt the main thread anywhere, also just after it has acquired a lock of Python's, which then
stays locked, and every thread that needs it hangs. So threads share none here: only this thread knows what is to come,
and the others write to it. A queue.SimpleQueue can be written to at any time.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from queue import Empty, SimpleQueue
from typing import Any, Callable

from ._process import after_fork

logger = logging.getLogger("redis_lock_module")

Call = tuple[float, int, Callable[..., object], tuple[Any, ...]]  # when; in which order; what


class Clock:
    def __init__(self) -> None:
        self._begin()
        after_fork(self._begin)  # a child holds nothing, and its threads are gone

    def _begin(self) -> None:
        self._letters: SimpleQueue[Call] = SimpleQueue()
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._only_one = threading.Lock()  # for the clock's own threads, which no signal interrupts

    def call_at(self, at: float, what: Callable[..., object], *args: Any) -> None:
        self._letters.put((at, next(self._numbers), what, args))
        if self._thread is None:
            threading.Thread(target=self._run, name="redis-lock clock", daemon=True).start()

    def _run(self) -> None:
        with self._only_one:
            if self._thread is not None:
                return  # two were started at once
            self._thread = threading.current_thread()
        calls: list[Call] = []
        while True:
            self._wait(calls)
            if calls and calls[0][0] <= time.monotonic():
                _, _, what, args = heapq.heappop(calls)
                try:
                    what(*args)
                except Exception:  # all that is still to come needs this thread
                    logger.exception("A hold was not looked after")

    def _wait(self, calls: list[Call]) -> None:
        limit = None if not calls else max(0.0, min(calls[0][0] - time.monotonic(), threading.TIMEOUT_MAX))
        try:
            heapq.heappush(calls, self._letters.get(timeout=limit))
        except Empty:
            pass


clock = Clock()
