"""Which of a lock object's holds is meant.

redis-py's interface has one lock object and one token. An object that several threads or tasks use at a time has
several holds here, and each of them finds its own: no release ends what another was granted.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from ._state import State


class Holds:
    """Those of one lock object (of one of its threads, if it is thread-local), with redis-py's name for their token."""

    def __init__(self, link: Any) -> None:
        self._link = link  # says who asks
        self._all: list[Any] = []
        self._by_taker: dict[str, WeakKeyDictionary[Any, Any]] = {}  # what most objects need none of
        self.handed_over: bytes | None = None  # a token that the caller has set

    def _live(self) -> list[Any]:
        for hold in [hold for hold in list(self._all) if hold._life.is_forgotten()]:
            with suppress(ValueError):  # another thread has done so
                self._all.remove(hold)
            taker = hold._taker()
            if hold._is_lost() and taker is not None:
                self._by_taker.setdefault("lost", WeakKeyDictionary())[taker] = hold
        me = self._link.me()  # who was interrupted while it released, and does so again
        return [hold for hold in list(self._all) if hold._releaser is None or hold._releaser is me]

    def add(self, hold: Any) -> Any:
        self.handed_over = None
        for earlier in self._live():
            if earlier._token == hold._token and earlier._life.state is State.UNSURE:
                earlier._forget()  # its release was called off
        self._all.append(hold)
        if "lost" in self._by_taker:
            self._by_taker["lost"].pop(self._link.me(), None)
        return hold

    def pick(self, entered: bool = False) -> Any:
        """My own, the latest first; else one whose thread or task has ended (it acquired for me); else the only one.
        """
        live, me = self._live(), self._link.me()
        if entered:
            live = [hold for hold in live if hold._is_entered] or live
        mine = [hold for hold in live if hold._taker() is me]
        if not mine:
            mine = [hold for hold in live if self._link.has_ended(hold._taker())]
        if not mine and len(live) == 1:
            mine = live
        return mine[-1] if mine else None

    def enter(self, hold: Any) -> None:
        hold._is_entered = True

    def of(self, token: Any) -> Any:
        return next((hold for hold in self._all[::-1] if hold._token == token and not hold._life.is_over()), None)

    def are_ambiguous(self) -> bool:
        return self.pick() is None and len(self._live()) > 1

    # An event that is taken before the lock is acquired is that of the hold that comes.

    def event_while_nothing_is_held(self) -> Any:
        me = self._link.me()
        self._live()
        lost = self._by_taker["lost"].get(me) if "lost" in self._by_taker else None
        if lost is not None:
            return lost.lost
        return self._by_taker.setdefault("events", WeakKeyDictionary()).setdefault(me, self._link.new_event())

    def event_for_a_new_hold(self) -> Any:
        """The one that was taken by me, or by another for whom I acquire; None if none was."""
        taken = self._by_taker.get("events")
        if not taken:
            return None
        event = taken.pop(self._link.me(), None)
        return taken.popitem()[1] if event is None else event

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
