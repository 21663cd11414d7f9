"""One thread of the process, which says of each hold when it has to be renewed and when it is lost."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator, List, Optional
from weakref import WeakSet

if TYPE_CHECKING:
    from ._threads import Hold


class Watch:
    def __init__(self) -> None:
        self._begin()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)  # a child holds nothing, and its threads are gone

    def _begin(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._holds: WeakSet[Hold] = WeakSet()  # weak: a lock that is dropped, or whose thread ends, is not renewed
        self._thread: Optional[threading.Thread] = None

    def add(self, hold: Hold) -> None:
        with self.changes():
            self._holds.add(hold)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="redis-lock watch", daemon=True)
                self._thread.start()

    def remove(self, hold: Hold) -> None:
        with self._changed:
            self._holds.discard(hold)

    def __contains__(self, hold: Hold) -> bool:
        return hold in self._holds

    @contextmanager
    def changes(self) -> Iterator[None]:
        with self._changed:
            yield
            self._changed.notify()

    def _run(self) -> None:
        while True:
            for hold in self._due():
                hold._act()
            # Nothing here may keep a hold alive while it waits.
            hold = None  # type: ignore[assignment]

    def _due(self) -> List[Hold]:
        with self._changed:
            now = time.monotonic()
            due = [hold for hold in self._holds if hold._next() <= now]
            if not due:
                first = min((hold._next() for hold in self._holds), default=None)
                self._changed.wait(None if first is None else min(first - now, threading.TIMEOUT_MAX))
            return due


watch = Watch()
