"""What is remembered of a request, and of how long a hold lasts. No connection in sight."""

from __future__ import annotations

import math
import os
import random
import socket
import time
import uuid
from typing import Any, NamedTuple, Optional

from ._options import milliseconds

# For how long a place in the queue is kept after its owner last asked, and how often that is per lease.
LEAST_LEASE = 2.0
GREATEST_LEASE = 60.0
ASKS_PER_LEASE = 5
# With a message that says when to ask, which is as sure as the connection by which it comes. Of processes that die while
# they wait each may cost the others a claim (2 seconds) as long as its place is kept.
SURE_LEASE = 15.0
ASKS_PER_SURE_LEASE = 3


LATE = 0.5  # for so many seconds beyond its end a wait listens for the reply
PATIENCE_OF_A_TRY = 2.0


class Grant(NamedTuple):
    asked: float  # when it was asked for, or granted if that was later
    fence: Optional[int]  # None without the module


class Latest:
    """The number of the last grant to an owner, as long as a hold of that owner is remembered."""

    def __init__(self, number: Optional[int]) -> None:
        self.number = number


def fresh_owner(prefix: Optional[str]) -> bytes:
    """Says to those who look at the lock which process holds it, and is like no other."""
    if prefix is None:
        prefix = f"{socket.gethostname()[:64]}:{os.getpid()}"
    return f"{prefix}:{uuid.uuid4()}".encode("utf-8", "surrogateescape")


class Request:
    """One attempt to acquire, by an owner of its own."""

    def __init__(self, owner: bytes, ttl: float, sleep: float, patience: Optional[float], woken: Any) -> None:
        self.owner = owner
        self.ttl = milliseconds(ttl)
        self.sleep = max(sleep, 0.001)
        self.pause = min(self.sleep, GREATEST_LEASE / ASKS_PER_LEASE)  # of one that has a place
        self.until = None if patience is None else time.monotonic() + patience
        # A server that has not replied by then does not: the caller gets an error.
        self.replies_until = None if self.until is None else self.until + (LATE if patience else PATIENCE_OF_A_TRY)
        self.left = False  # something of it may be left in the server
        self.blocks = False  # it may wait in the server by BLOCK
        self.given_up = False
        self.woken = woken  # an event: it is time to ask, or to give up

    def give_up(self) -> None:
        self.given_up = True
        self.woken.set()

    def may_be_left_until(self) -> float:
        """The server keeps its hold or its place no longer than this, if it is not asked for again."""
        return time.monotonic() + max(self.ttl / 1000, SURE_LEASE)

    def remaining(self) -> float:
        """In seconds: infinite for one that waits for ever."""
        if self.given_up:
            return 0.0
        return math.inf if self.until is None else self.until - time.monotonic()

    def is_over(self) -> bool:
        return self.remaining() <= 0

    def listens_for(self) -> float:
        return math.inf if self.replies_until is None else self.replies_until - time.monotonic()

    def for_a_while(self, pause: float) -> float:
        """So long, or less: not all ask in step, and none pauses for longer than it has patience."""
        return max(0.0, min(pause * random.uniform(0.75, 1), self.remaining()))


class Term:
    """Until when a hold lasts, as far as this process knows, and when it has to be renewed."""

    def __init__(self, ttl: float, asked: float, renews: bool, renew_for: Optional[float]) -> None:
        self.ttl = ttl
        self.began = asked
        self.ends = asked + ttl
        self.may_last_until = -math.inf  # of a renewal whose reply may be lost
        self.renews = renews
        self.renews_until = math.inf if renew_for is None else asked + renew_for
        self.not_before = -math.inf
        self.failure: Optional[BaseException] = None  # why it could not be renewed, when that was tried last

    def due(self) -> float:
        """When to renew: with two thirds of the ttl left; never beyond the cap."""
        at = max(self.ends - self.ttl * 2 / 3, self.not_before)
        return at if self.renews and at < self.renews_until else math.inf

    def is_over(self) -> bool:
        return time.monotonic() >= self.ends

    def may_last_for(self, ttl: float) -> None:
        """A renewal is asked for."""
        self.may_last_until = max(self.may_last_until, time.monotonic() + ttl)

    def is_being_renewed(self) -> None:
        self.may_last_for(self.ttl)
        self.failure = TimeoutError("no reply")  # until there is one

    def prolonged(self, asked: float, ttl: float) -> None:
        self.ends, self.failure = asked + ttl, None

    def failed(self, error: BaseException) -> None:
        """There was no answer: ask again soon."""
        self.not_before, self.failure = time.monotonic() + self.ttl / 10, error

    def why_it_is_over(self) -> str:
        if self.failure is not None:
            return f"could not be renewed within its {self.ttl:g} seconds ({self.failure})"
        if self.renews and time.monotonic() >= self.renews_until:
            return f"was renewed for {self.renews_until - self.began:g} seconds, as renew_for says, and no longer"
        return f"was held for longer than its {self.ends - self.began:g} seconds"
