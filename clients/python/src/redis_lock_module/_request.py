"""What is remembered of a request that is under way."""

import math
import os
import random
import socket
import time
from typing import Any, Awaitable, NamedTuple, TypeVar

from redis.exceptions import ResponseError

from ._background import after_fork
from ._errors import IS_ABOUT_SOMETHING_ELSE, MAY_HAVE_CHANGED, misses_the_module, says, uses_all_connections
from ._options import milliseconds

T = TypeVar("T")

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


class _Process:
    """As owners and holds know it. A forked child is another one, and has nothing of what its parent began."""

    def __init__(self) -> None:
        self.id = os.getpid()
        self.name = f"{socket.gethostname()[:64]}:{self.id}"


process = _Process()
after_fork(process.__init__)  # type: ignore[misc]


class Grant(NamedTuple):
    asked: float  # when it was asked for, or granted if that was later
    fence: int | None  # None without the module


def fresh_owner(prefix: str | None) -> bytes:
    """Says to those who look at the lock which process holds it, and is like no other."""
    digits = os.urandom(16).hex()  # of a random uuid, which uuid.uuid4() takes four times as long for
    uuid = f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
    return f"{process.name if prefix is None else prefix}:{uuid}".encode("utf-8", "surrogateescape")


class Request:
    """One attempt to acquire, by an owner of its own, or by one that the caller has chosen."""

    def __init__(self, owner: bytes, is_chosen: bool, ttl: float, sleep: float, patience: float | None,
                 woken: Any) -> None:
        self.owner, self.is_chosen = owner, is_chosen
        self.seconds, self.ttl = ttl, milliseconds(ttl)
        self.sleep = max(sleep, 0.001)
        self.pause = min(self.sleep, GREATEST_LEASE / ASKS_PER_LEASE)  # of one that has a place
        self.waits = patience != 0
        self.until = math.inf if patience is None else time.monotonic() + patience
        # A server that has not replied by then does not: the caller gets an error.
        self.replies_until = self.until + (LATE if patience else PATIENCE_OF_A_TRY)
        self.asked = 0.0  # when it was asked for last
        self.left = False  # something of it may be left in the server
        self.blocks = False  # it may wait in the server by BLOCK
        self.given_up = False
        self.woken = woken  # a bell: it is time to ask, or to give up
        self.asking: Any = None  # the task that asks for it, or the errand; None if its own caller does

    async def sent(self, question: Awaitable[T]) -> T:
        """Notes what may be left in the server, whatever comes of the question."""
        left_before, self.left = self.left, True
        try:
            reply = await question
        except ResponseError as error:  # most refusals change nothing
            self.left = says(error, *MAY_HAVE_CHANGED) or left_before and not says(error, *IS_ABOUT_SOMETHING_ELSE)
            raise
        except Exception as error:
            self.left = left_before or not (uses_all_connections(error) or misses_the_module(error))
            raise
        self.left = bool(reply)
        return reply

    def may_be_left_until(self) -> float:
        """The server keeps its hold or its place no longer than this, if it is not asked for again."""
        return time.monotonic() + max(self.ttl / 1000, SURE_LEASE)

    def remaining(self) -> float:
        """In seconds: infinite for one that waits indefinitely."""
        return 0.0 if self.given_up else self.until - time.monotonic()

    def is_over(self) -> bool:
        return self.remaining() <= 0

    def listens_for(self) -> float:
        return max(0.0, self.replies_until - time.monotonic())

    def for_a_while(self, pause: float) -> float:
        """So long, or less: not all ask in step, and none pauses for longer than it has patience."""
        return max(0.0, min(pause * random.uniform(0.75, 1), self.remaining()))
