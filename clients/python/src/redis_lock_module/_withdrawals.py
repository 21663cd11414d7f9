"""What may still be in the server though its caller got an error: what is left of a request, or a hold whose release has
failed. It is released in the background until the server has heard of it, or it has expired."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Deque, Dict, Tuple
from weakref import WeakKeyDictionary

from ._link import finish

if TYPE_CHECKING:
    from ._core import Core

# Between two attempts, in seconds; each is twice as long as the one before.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class Withdrawal:
    def __init__(self, core: Core, owner: bytes, until: float) -> None:
        self._core, self._owner, self.until = core, owner, until
        self.is_called_off = False  # the same owner acquires it anew
        self.is_busy = False

    def is_of(self, keys: Tuple[bytes, ...], owner: bytes) -> bool:
        return self._owner == owner and self._core.spelling.keys == keys

    def wait(self) -> None:
        """The caller has left, and what it has asked for may still be heard: until `begin` or `end` is called, a later
        request by the same owner waits."""
        self.is_busy = True
        if self not in self._core.link.server.withdrawals:
            self._core.link.server.withdrawals.append(self)

    def begin(self, until: float) -> None:
        self.until, self.is_busy = until, False
        if self.is_called_off:
            self.end()
        else:
            self._core.link.go_on(self)

    def end(self) -> None:
        self.is_busy = False
        with suppress(ValueError):
            self._core.link.server.withdrawals.remove(self)

    async def has_ended(self) -> bool:
        """Tries, if there is something left to do."""
        self.is_busy = True
        try:
            over = self.is_called_off or time.monotonic() >= self.until or await self._core.withdraw(self._owner)
        finally:
            self.is_busy = False
        if over:
            self.end()
        return over

    async def go_on(self) -> None:
        pause = FIRST_PAUSE
        while not await self.has_ended():
            await self._core.link.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)


class Withdrawals:
    """Those of a pool that threads use. When the server does not answer, hundreds of requests fail in a moment: one
    thread withdraws them, one after the other."""

    def __init__(self) -> None:
        self._all: Deque[Withdrawal] = deque()
        self._running: Dict[str, threading.Thread] = {}  # at most one entry: setdefault decides which thread it is

    def add(self, withdrawal: Withdrawal) -> None:
        self._all.append(withdrawal)
        self._start()

    def _start(self) -> None:
        if not self._running:
            try:
                threading.Thread(target=self._run, name="redis-lock release", daemon=True).start()
            except RuntimeError:  # there are too many threads, or the interpreter is about to end
                if not self._running:  # what is left in the server expires
                    self._all.clear()

    def _run(self) -> None:
        me = threading.current_thread()
        if self._running.setdefault("thread", me) is not me:
            return
        pause = FIRST_PAUSE
        while self._all:
            withdrawal = self._all.popleft()
            if finish(withdrawal.has_ended()):
                pause = FIRST_PAUSE
                continue
            self._all.append(withdrawal)
            time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        self._running.clear()
        if self._all:  # another has come meanwhile, and seen that this was running
            self._start()


_withdrawals: WeakKeyDictionary[Any, Withdrawals] = WeakKeyDictionary()


def withdrawals_of(pool: Any) -> Withdrawals:
    return _withdrawals.setdefault(pool, Withdrawals())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_withdrawals.clear)  # what the parent has asked for, it withdraws
