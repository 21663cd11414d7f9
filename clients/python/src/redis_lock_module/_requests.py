"""What is said to the server, and what is remembered of a request and of a hold. No connection in sight."""

from __future__ import annotations

import math
import threading
import time
import uuid
from types import SimpleNamespace
from typing import Any, List, Optional, Sequence, Tuple, Union
from weakref import WeakKeyDictionary

Name = Union[str, bytes, memoryview]
Names = Union[Name, Sequence[Name]]
Words = Tuple[Any, ...]

# For how long a place in the queue is kept after its owner last asked, at least; and how often that is per lease.
LEAST_LEASE = 2.0
GREATEST_LEASE = 60.0
ASKS_PER_LEASE = 5


def milliseconds(seconds: float) -> int:
    """Rounded up: to wait for half a millisecond is not to try once, and nothing is held for no time at all."""
    return max(1, math.ceil(round(seconds * 1000, 6)))


class Spelling:
    """The commands of one lock, or of several that are held together."""

    def __init__(self, name: Names, shared: bool, limit: Optional[int]) -> None:
        if shared and limit is not None:
            raise ValueError("a lock is either shared or has a limit, which shares it too")
        self.names: Tuple[Name, ...] = (name,) if isinstance(name, (str, bytes, memoryview)) else tuple(name)
        if not self.names:
            raise ValueError("a lock needs a name")
        self._many: Tuple[str, ...] = () if len(self.names) == 1 else ("M",)
        self._mode: Words = ("SHARED",) if shared else () if limit is None else ("LIMIT", limit)

    def _command(self, verb: str, *words: Any) -> Words:
        if self._many:
            return (f"LOCK.M{verb}", len(self.names), *self.names, *words)
        return (f"LOCK.{verb}", self.names[0], *words)

    def acquire(self, owner: bytes, ttl: int, *how: Any) -> Words:
        return self._command("ACQUIRE", owner, ttl, *how, *self._mode)

    def release(self, owner: bytes) -> Words:
        return self._command("RELEASE", owner)

    def renew(self, owner: bytes, ttl: int) -> Words:
        return self._command("RENEW", owner, ttl)

    def checks(self, owner: bytes) -> List[Words]:
        return [("LOCK.CHECK", name, owner) for name in self.names]

    def guard(self, owner: bytes, command: Words) -> Words:
        return ("LOCK.GUARD", self.names[0], owner, *command)

    def all_released(self, reply: Any) -> bool:
        return bool(reply == len({bytes(name, "utf-8") if isinstance(name, str) else bytes(name)
                                  for name in self.names}))


class Request:
    """One attempt to acquire, by an owner of its own."""

    def __init__(self, owner: bytes, ttl: float, sleep: float, patience: Optional[float]) -> None:
        self.owner = owner
        self.ttl = milliseconds(ttl)
        self.pause = min(sleep, GREATEST_LEASE / ASKS_PER_LEASE)
        self.until = None if patience is None else time.monotonic() + patience
        self.left = False  # something of it may be left in the server

    @staticmethod
    def fresh_owner() -> bytes:
        return uuid.uuid4().hex.encode()

    def remaining(self) -> float:
        """In seconds: infinite for one that waits for ever."""
        return math.inf if self.until is None else self.until - time.monotonic()

    def until_next(self) -> float:
        """In seconds: until it is to be asked again, where nothing else says when."""
        return max(0.0, min(self.pause, self.remaining()))

    def block(self) -> Tuple[Any, ...]:
        # BLOCK 0 waits for ever, and milliseconds() never returns that.
        return ("BLOCK", 0 if self.until is None else milliseconds(self.remaining()))

    def queue(self) -> Tuple[Any, ...]:
        return ("QUEUE", milliseconds(max(LEAST_LEASE, ASKS_PER_LEASE * self.pause)))


class Local(threading.local):
    """What one thread knows: a thread that has acquired nothing finds nothing."""

    token: Optional[bytes] = None
    hold: Any = None


def local_to(thread: bool) -> Any:
    return Local() if thread else SimpleNamespace(token=None, hold=None)


class Term:
    """Until when a hold lasts, as far as this process knows, and when it has to be renewed."""

    def __init__(self, ttl: float, asked: float, renews: bool, renew_for: Optional[float]) -> None:
        self.ttl = ttl
        self.ends = asked + ttl
        self.renews = renews
        self.renews_until = math.inf if renew_for is None else asked + renew_for
        self.not_before = -math.inf

    def due(self) -> float:
        """When to renew: with two thirds of the ttl left; never beyond the cap."""
        at = max(self.ends - self.ttl * 2 / 3, self.not_before)
        return at if self.renews and at < self.renews_until else math.inf

    def prolonged(self, asked: float, ttl: float) -> None:
        self.ends = asked + ttl

    def failed(self) -> None:
        """Nobody answered: ask again soon."""
        self.not_before = time.monotonic() + self.ttl / 10


class Room:
    """At most half of a pool's connections wait by BLOCK at a time: the others are there to release by."""

    def __init__(self) -> None:
        self._waiting: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._guard = threading.Lock()

    def enter(self, pool: Any, connections: int) -> bool:
        with self._guard:
            waiting = self._waiting.get(pool, 0)
            if waiting + 1 > connections // 2:
                return False
            self._waiting[pool] = waiting + 1
            return True

    def leave(self, pool: Any) -> None:
        with self._guard:
            self._waiting[pool] -= 1


room = Room()
