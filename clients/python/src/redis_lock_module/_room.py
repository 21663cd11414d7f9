"""How many of a pool's connections may wait at a time: the others are there to release by."""

from __future__ import annotations

import os
from typing import Any, Tuple
from weakref import WeakKeyDictionary, WeakSet


class Ticket:
    """For a connection. One that is dropped is given back: no interrupt, at whatever point, leaks any."""


class Room:
    def __init__(self, share: int) -> None:
        self._share = share
        self._open()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._open)  # those that waited do so in the parent

    def _open(self) -> None:
        self._waiting: WeakKeyDictionary[Any, WeakSet[Ticket]] = WeakKeyDictionary()

    def enter(self, pool: Any, ticket: Ticket, connections: int, at_least: int = 0) -> bool:
        waiting = self._waiting.setdefault(pool, WeakSet())
        waiting.add(ticket)
        if len(waiting) > max(at_least, connections // self._share):
            waiting.discard(ticket)  # two at once may both be refused, and never both let in
            return False
        return True

    def leave(self, pool: Any, ticket: Ticket) -> None:
        self._waiting[pool].discard(ticket)


# Those that wait by BLOCK, and those that ask for a place: the rest is for those that hold something.
Rooms = Tuple[Room, Room]
rooms: Rooms = (Room(2), Room(4))
