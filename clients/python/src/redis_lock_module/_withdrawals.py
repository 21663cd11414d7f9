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
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0
_ATTEMPT = 0.1  # so long an attempt takes that is under way, while the server answers


class Withdrawal:
    """Of what an owner has. A request that is still under way is withdrawn when that has ended."""

    def __init__(self, core: Core, owner: bytes, until: float, request: Request | None = None) -> None:
        self._core, self.keys, self.owner, self._until = core, core.spelling.keys, owner, until
        self._request = request
        self._turn = [True]  # of the one that attempts it
        self._is_over = False
        self.ended = core.link.new_bell()
        core.link.server.withdrawals.add(self, core.link)

    async def attempt(self) -> bool:
        """Whether it has ended."""
        try:
            turn = self._turn.pop()
        except IndexError:  # another one has it
            return False
        try:
            self._is_over = self._is_over or await self._withdraw()
        finally:
            self._turn.append(turn)
        if self._is_over:
            self._core.link.server.withdrawals.remove(self)
            self.ended.set()
        return self._is_over

    async def _withdraw(self) -> bool:
        request, times = self._request, 1
        if request is not None:
            if request.asking is not None and not request.asking.done():
                if request.blocks:
                    await self._core.release(self.owner)  # which ends its wait
                self._until = request.may_be_left_until()
                return False
            # What was said last by a connection that is closed now may be read after the first of them.
            times = 2 if request.left else 0
        if time.monotonic() < self._until:
            for _ in range(times):
                await self._core.release(self.owner)
        return True


class Withdrawals:
    """Those of a server. When it does not answer, hundreds of requests fail in a moment: one thread or task withdraws
    them, one after the other."""

    def __init__(self) -> None:
        self.known: list[Withdrawal] = []
        self._work: Any = None
        self._bell: Any = None
        self._pause = FIRST_PAUSE

    def add(self, withdrawal: Withdrawal, link: Link) -> None:
        self.known.append(withdrawal)
        self._pause = FIRST_PAUSE
        if self._bell:
            self._bell.set()
        self._start(link)

    def remove(self, withdrawal: Withdrawal) -> None:
        with suppress(ValueError):
            self.known.remove(withdrawal)

    def _start(self, link: Link) -> None:
        if self._work is None or self._work.done():
            self._work = link.go_on(self.go_on(link))

    async def go_on(self, link: Link) -> None:
        self._bell = link.new_bell()
        while self.known:
            self._bell.clear()
            for one in list(self.known):
                with suppress(Exception):  # why it has come to this is what counts
                    if await one.attempt():
                        self._pause = FIRST_PAUSE
            if self.known:
                await link.rest(self._bell, self._pause)
                self._pause = min(self._pause * 2, LONGEST_PAUSE)
        self._work = None
        if self.known:  # another has come meanwhile, and seen that this was running
            self._start(link)

    async def end_before(self, request: Request, core: Core) -> bool:
        """The caller has used this owner before, and what is withdrawn of it in the background would be what comes now:
        so that ends first. False if it has not by the end of the request: it may be on its way to the server."""
        while known := [one for one in list(self.known)
                        if one.owner == request.owner and one.keys == core.spelling.keys]:
            if all([await one.attempt() for one in known]):
                break
            if request.given_up or request.remaining() < -_ATTEMPT:
                return False
            await core.link.sleep(FIRST_PAUSE)
        return True
