"""What may still be in the server though its caller got an error: what is left of a request, or a hold whose release has
failed. It is released in the background until the server has heard of it, or it has expired."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._core import Core
    from ._link import Link

# Between two attempts, in seconds; each is twice as long as the one before.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class Withdrawal:
    def __init__(self, core: Core, owner: bytes, until: float) -> None:
        self._core, self._owner, self.until = core, owner, until
        self._all = core.link.server.withdrawals
        self._all.known.append(self)
        self.is_called_off = False  # the same owner acquires it anew
        # The caller has left, and what it has asked for may still be heard: until `begin` or `end` is called, a later
        # request by the same owner waits. So it does while this is tried.
        self.is_busy = True

    def is_of(self, keys: tuple[bytes, ...], owner: bytes) -> bool:
        return self._owner == owner and self._core.spelling.keys == keys

    def begin(self, until: float) -> None:
        self.until, self.is_busy = until, False
        if self.is_called_off:
            self.end()
        else:
            self._all.add(self, self._core.link)

    def end(self) -> None:
        self.is_busy = False
        with suppress(ValueError):
            self._all.known.remove(self)

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


class Withdrawals:
    """Those of a server. When it does not answer, hundreds of requests fail in a moment: one thread or task withdraws
    them, one after the other."""

    def __init__(self) -> None:
        self.known: list[Withdrawal] = []
        self._waiting: deque[Withdrawal] = deque()
        self._place: object = None
        self._work: Any = None

    def add(self, withdrawal: Withdrawal, link: Link) -> None:
        self._waiting.append(withdrawal)
        self._start(link)

    def _start(self, link: Link) -> None:
        if self._work is None or self._work.done() or self._place is not link.place():
            self._place, self._work = link.place(), link.go_on(self.go_on(link))

    async def go_on(self, link: Link) -> None:
        pause = FIRST_PAUSE
        while self._waiting:
            withdrawal = self._waiting.popleft()
            if await withdrawal.has_ended():
                pause = FIRST_PAUSE
                continue
            self._waiting.append(withdrawal)
            await link.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        self._work = None
        if self._waiting:  # another has come meanwhile, and seen that this was running
            self._start(link)
