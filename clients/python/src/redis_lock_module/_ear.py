"""One connection more for each pool, and only while requests wait by it: the server says there whose turn it is."""

from __future__ import annotations

import itertools
import uuid
from typing import Any, Callable, Dict, List, Optional

LINGERS = 1.0  # for how long it stays when no request waits any more, in seconds
BEAT = 5.0  # so often it is made sure that the connection lives, in seconds


class Ear:
    def __init__(self) -> None:
        self.channel: Optional[str] = None  # while it listens
        self.is_deaf = False  # it may not listen: then one asks more often
        self._numbers = itertools.count()
        self._waiting: Dict[bytes, Callable[[], None]] = {}

    @staticmethod
    def new_channel() -> str:
        return f"redis-lock:{uuid.uuid4().hex}"

    def new_number(self) -> bytes:
        return b"%d" % next(self._numbers)

    def join(self, number: bytes, wake: Callable[[], None]) -> None:
        """From now on, until it has left, `wake` is called when a message for the number comes."""
        self._waiting[number] = wake

    def listen(self) -> Optional[str]:
        """The channel. None as long as it is not open: it wakes everybody when it is."""
        if not self.is_deaf and self.channel is None:
            self.open()
        return self.channel

    def leave(self, number: bytes) -> None:
        self._waiting.pop(number, None)

    def is_needed(self) -> bool:
        return bool(self._waiting)

    def open(self) -> None:
        raise NotImplementedError

    def opened(self, channel: str) -> None:
        self.channel = channel
        self._wake_all()

    def closed(self) -> None:
        """What was said meanwhile was not heard."""
        if self.channel is not None:
            self.channel = None
            self._wake_all()

    def hear(self, reply: Any) -> None:
        if isinstance(reply, (list, tuple)) and len(reply) == 3 and reply[0] in (b"message", "message"):
            number = reply[2].encode() if isinstance(reply[2], str) else reply[2]
            wake = self._waiting.get(number)
            if wake:
                wake()

    def _wake_all(self) -> None:
        everybody: List[Callable[[], None]] = list(self._waiting.values())
        for wake in everybody:
            wake()
