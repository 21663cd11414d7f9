"""What may still be in the server though its caller got an error: what is left of a request, or a hold whose release has
failed. It is released in the background until the server has heard of it, or it has expired."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._core import Core
    from ._link import Link
    from ._request import Request

# Between two attempts, in seconds; each is twice as long as the one before.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class Withdrawal:
    """Of what an owner has. A request that is still under way is withdrawn when that has ended."""

    def __init__(self, core: Core, owner: bytes, until: float, request: Request | None = None) -> None:
        self._core, self._owner, self._until, self._request = core, owner, until, request
        self._is_tried = False
        self.is_called_off = False  # the same owner acquires it anew, and ends it or lets it go on
        core.link.server.withdrawals.add(self, core.link)

    def is_of(self, keys: tuple[bytes, ...], owner: bytes) -> bool:
        return self._owner == owner and self._core.spelling.keys == keys

    def is_busy(self) -> bool:
        """Something is on its way to the server: a later request by the same owner waits for that."""
        return self._is_tried or self._request is not None and not self._request.asking.done()

    async def has_ended(self) -> bool:
        """Tries, if there is something left to do."""
        if self.is_busy() or self.is_called_off:
            return False
        self._is_tried = True
        try:
            is_left, request, self._request = True, self._request, None
            if request is not None:
                is_left, self._until = request.left, request.may_be_left_until()
            over = not is_left or time.monotonic() >= self._until or await self._core.withdraw(self._owner)
        finally:
            self._is_tried = False
        if over:
            self._core.link.server.withdrawals.remove(self)
        return over


class Withdrawals:
    """Those of a server. When it does not answer, hundreds of requests fail in a moment: one thread or task withdraws
    them, one after the other."""

    def __init__(self) -> None:
        self.known: list[Withdrawal] = []
        self._place: object = None
        self._work: Any = None

    def add(self, withdrawal: Withdrawal, link: Link) -> None:
        self.known.append(withdrawal)
        self._start(link)

    def remove(self, withdrawal: Withdrawal) -> None:
        with suppress(ValueError):
            self.known.remove(withdrawal)

    def _start(self, link: Link) -> None:
        if self._work is None or self._work.done() or self._place is not link.place():
            self._place, self._work = link.place(), link.go_on(self.go_on(link))

    async def go_on(self, link: Link) -> None:
        pause = FIRST_PAUSE
        while self.known:
            if any([await one.has_ended() for one in list(self.known)]):
                pause = FIRST_PAUSE
            if self.known:
                await link.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        self._work = None
        if self.known:  # another has come meanwhile, and seen that this was running
            self._start(link)
