"""What one thread waits for until another one rings."""

from __future__ import annotations

import threading
from contextlib import suppress


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
