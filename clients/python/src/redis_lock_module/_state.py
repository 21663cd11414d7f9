"""The states of a hold, and the clock that they go by. No connection in sight.

| state     | what it means                                   | held | renewed | what ends it                 |
|-----------|-------------------------------------------------|------|---------|------------------------------|
| HELD      | granted                                         | yes  | yes     | a release, a loss            |
| RELEASING | a release is on its way                         | yes  | no      | the reply, an error, a loss  |
| UNSURE    | a release failed, and goes on in the background | no   | no      | another release, its time    |
| LOST      | its time is over, or the server has no such one | no   | no      | a release, which says so     |
| LAPSED    | as UNSURE, but its time is over                 | no   | no      | a release, which says so     |
| OVER      | released, or a release has said that it is lost | no   | no      | nothing                      |

A lock object remembers its holds until they are LAPSED or OVER, so that they can be released.

Threads share a hold, and none of them may lock anything: an interrupt could leave it locked. So the state is computed of
three facts, each of which has one writer at a time: how far its release has come (written by the caller that releases),
why it was lost (by the first that finds out), and its term (by the renewal that is under way).
"""

import math
import time
from enum import Enum

from redis.exceptions import TimeoutError


TTL = 30.0  # of a lock without a timeout, in seconds


class State(Enum):
    HELD = "held"
    RELEASING = "being released"
    UNSURE = "being released in the background"
    LOST = "lost"
    LAPSED = "lost after a release that failed"
    OVER = "over"


class Life:
    def __init__(self, ttl: float, asked: float, renews: bool, renew_for: float | None) -> None:
        self.ttl = ttl
        self.ends = asked + ttl
        self.renews = renews
        self._began = asked
        self._renews_until = math.inf if renew_for is None else asked + renew_for
        self._latest_end = self.ends  # that was asked for
        self._not_before = -math.inf  # infinite while a renewal is on its way
        self._failure: BaseException | None = None  # why it could not be renewed, when that was tried last
        self._release = State.HELD  # how far it has come: HELD, RELEASING, UNSURE or OVER
        self._losses: list[str] = []  # the first counts

    @property
    def state(self) -> State:
        if self._losses and self._release is not State.OVER:
            return State.LAPSED if self._release is State.UNSURE else State.LOST
        return self._release

    def is_over(self) -> bool:
        return self._release is State.OVER

    def is_lost(self) -> bool:
        """Also when it is over."""
        return bool(self._losses)

    def is_forgotten(self) -> bool:
        state = self.state
        return state in (State.LAPSED, State.OVER) or state is State.UNSURE and self.is_past()

    def releases(self, how_far: State) -> None:
        """One that goes on in the background does so when it is released again, too."""
        self.renews = False
        if (how_far, self._release) != (State.RELEASING, State.UNSURE):
            self._release = how_far

    def lose(self, why: str) -> bool:
        """Whether this is the first that finds it out."""
        how = f"{why}, {max(0.0, time.monotonic() - self._began):.1f} seconds after it was acquired"
        self.renews = False
        self._losses.append(how)
        return self._losses[0] is how

    def why_lost(self) -> str:
        return self._losses[0] if self._losses else "was released"

    # The clock

    def is_past(self) -> bool:
        return time.monotonic() >= self.ends

    def why_past(self) -> str:
        if self._failure is not None:
            return f"could not be renewed within its {self.ttl:g} seconds ({self._failure})"
        if self.renews and time.monotonic() >= self._renews_until:
            return f"was renewed for {self._renews_until - self._began:g} seconds, as renew_for says, and no longer"
        return f"was held for longer than its {self.ends - self._began:g} seconds"

    def may_last_until(self) -> float:
        """In the server. The end of a token that was handed over is not known."""
        return self._latest_end if self._latest_end < math.inf else time.monotonic() + TTL

    def due(self) -> float:
        """When to renew: with two thirds of the ttl left; never beyond the cap."""
        at = max(self.ends - self.ttl * 2 / 3, self._not_before)
        return at if self.renews and at < self._renews_until else math.inf

    def asks(self, ttl: float) -> float:
        """To last for so long, which the server may hear of, and we not of its reply. Returns when."""
        asked = time.monotonic()
        self._latest_end = max(self._latest_end, asked + ttl)
        return asked

    def renewal_begins(self) -> float:
        """In the background."""
        self._not_before, self._failure = math.inf, TimeoutError("no reply")  # until there is one
        return self.asks(self.ttl)

    def renewed(self, asked: float, ttl: float) -> None:
        self.ends, self._failure = asked + ttl, None
        self._not_before = -math.inf

    def renewal_failed(self, error: BaseException) -> None:
        """There was no reply: retry soon."""
        self._not_before, self._failure = time.monotonic() + self.ttl / 10, error
