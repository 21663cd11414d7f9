"""Requests that have failed with an error, and may have left something in the server. When it does not answer, hundreds
fail in a moment: one thread for each pool withdraws them, one after the other."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from typing import Any, Deque, Dict, Tuple
from weakref import WeakKeyDictionary

from ._core import FIRST_PAUSE, LONGEST_PAUSE, Core
from ._link import finish
from ._request import Request


class Withdrawals:
    def __init__(self) -> None:
        self._requests: Deque[Tuple[Core, Request, float]] = deque()
        self._running: Dict[str, threading.Thread] = {}  # at most one entry: setdefault decides which thread it is

    def add(self, core: Core, request: Request) -> None:
        self._requests.append((core, request, time.monotonic() + request.may_be_left_for()))
        self._start()

    def _start(self) -> None:
        if not self._running:
            try:
                threading.Thread(target=self._run, name="redis-lock release", daemon=True).start()
            except RuntimeError:  # there are too many threads, or the interpreter is about to end
                if not self._running:  # what is left in the server expires
                    self._requests.clear()

    def _run(self) -> None:
        me = threading.current_thread()
        if self._running.setdefault("thread", me) is not me:
            return
        pause = FIRST_PAUSE
        while self._requests:
            core, request, until = self._requests.popleft()
            if time.monotonic() >= until:
                continue  # what was left has expired
            if finish(core.withdraw(request)):
                pause = FIRST_PAUSE
                continue
            self._requests.append((core, request, until))
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        self._running.clear()
        if self._requests:  # another has come meanwhile, and seen that this was running
            self._start()


_withdrawals: WeakKeyDictionary[Any, Withdrawals] = WeakKeyDictionary()


def withdrawals_of(pool: Any) -> Withdrawals:
    return _withdrawals.setdefault(pool, Withdrawals())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_withdrawals.clear)  # what the parent has asked for, it withdraws
