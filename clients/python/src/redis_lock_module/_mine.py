"""Which of a lock object's holds is meant.

redis-py's interface has one lock object and one token. An object that several threads or tasks use at a time has
several holds here, and each of them finds its own: no release ends what another was granted.
"""

import threading
from contextlib import suppress
from typing import Any

from ._state import State


class Holds:
    """Those of one lock object (of one of its threads, if it is thread-local), with redis-py's name for their token."""

    def __init__(self, link: Any) -> None:
        self._link = link  # says who asks
        self._all: list[Any] = []
        self.latest: Any = None  # also when it is over
        self.handed_over: bytes | None = None  # a token that the caller has set

    def live(self) -> list[Any]:
        for hold in [hold for hold in list(self._all) if hold._life.is_forgotten()]:
            with suppress(ValueError):  # another thread has done so
                self._all.remove(hold)
            hold._look()
        me = self._link.me()  # who was interrupted while it released, and does so again
        return [hold for hold in list(self._all) if hold._releaser is None or hold._releaser is me]

    def add(self, hold: Any) -> Any:
        self.handed_over = None
        for earlier in self.live():
            if earlier._token == hold._token and earlier._life.state is State.UNSURE:
                earlier._forget()  # its release was called off
        self._all.append(hold)
        self.latest = hold
        return hold

    def pick(self) -> Any:
        """My own, the latest first; else one whose thread or task has ended (it acquired for me); else the only one.
        """
        live, me = self.live(), self._link.me()
        mine = [hold for hold in live if hold._taker() is me]
        if not mine:
            mine = [hold for hold in live if self._link.has_ended(hold._taker())]
        if not mine and len(live) == 1:
            mine = live
        return mine[-1] if mine else None

    def of(self, token: Any) -> Any:
        return next((hold for hold in self._all[::-1] if hold._token == token and not hold._life.is_over()), None)

    @property
    def token(self) -> bytes | None:
        if self.handed_over is not None:
            return self.handed_over
        hold = self.pick()
        token: bytes | None = hold._token if hold else None
        return token

    @token.setter
    def token(self, token: bytes | None) -> None:
        hold = self.pick() if token is None else None
        self.handed_over = token
        if hold:
            hold._forget()


class ThreadLocal(threading.local, Holds):
    """What one thread knows: a thread that has acquired nothing finds nothing."""
