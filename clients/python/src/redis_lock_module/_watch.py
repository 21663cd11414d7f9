"""One thread of the process, which says of each hold when it has to be renewed and when it is lost.

Ctrl-C or a signal can interrupt the main thread anywhere, also just after it has acquired a lock of Python's, which then
stays locked, and every thread that needs it hangs. So threads share none here: only the watch's own thread knows which
holds are watched, and the others write to it. A queue.SimpleQueue can be written to at any time.
"""

from __future__ import annotations

import math
import os
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Optional, Set
from weakref import ReferenceType, ref

if TYPE_CHECKING:
    from ._threads import Hold


class Watch:
    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)  # a child holds nothing, and its threads are gone

    def _begin(self) -> None:
        # Weak: a lock that is dropped, or whose thread ends, is not renewed.
        self._letters: SimpleQueue[ReferenceType[Hold]] = SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._only_one = threading.Lock()  # for the watch's own threads, which no signal interrupts

    def look_at(self, hold: Hold) -> None:
        """It is watched from now on, or there is another time at which it has to act."""
        self._letters.put(ref(hold))
        if self._thread is None:
            threading.Thread(target=self._run, name="redis-lock watch", daemon=True).start()

    def _run(self) -> None:
        with self._only_one:
            if self._thread is not None:
                return  # two were started at once
            self._thread = threading.current_thread()
        holds: Set[ReferenceType[Hold]] = set()
        while True:
            # Nothing here may keep a hold alive while it waits.
            self._read(holds, _act(holds))

    def _read(self, holds: Set[ReferenceType[Hold]], until: float) -> None:
        limit = None if until == math.inf else max(0.0, min(until - time.monotonic(), threading.TIMEOUT_MAX))
        try:
            letters = [self._letters.get(timeout=limit)]
        except Empty:
            return
        for _ in range(self._letters.qsize()):  # what comes meanwhile is read the next time
            letters.append(self._letters.get_nowait())
        for letter in letters:
            hold = letter()  # alive, so that its reference can be hashed
            if hold is not None:
                holds.add(letter)


def _act(holds: Set[ReferenceType[Hold]]) -> float:
    """When the next of them has to act."""
    first = math.inf
    for one in list(holds):
        hold = one()
        if hold is not None and hold._is_watched and hold._next() <= time.monotonic():
            hold._act()
        if hold is not None and hold._is_watched:
            first = min(first, hold._next())
        else:
            holds.discard(one)
    return first


watch = Watch()
