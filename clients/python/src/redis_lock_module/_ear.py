"""One connection more for each pool, and only while requests wait by it: the server says there whose turn it is."""

from __future__ import annotations

import itertools
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable

from redis.exceptions import ConnectionError, ResponseError

from ._errors import MAY_NOT_LISTEN, says

if TYPE_CHECKING:
    from ._link import Line, Link

LINGERS = 1.0  # for how long it stays when no request waits any more, in seconds
BEAT = 5.0  # so often it is made sure that the connection lives, in seconds
_TICK = 0.5


class Ear:
    def __init__(self) -> None:
        self.channel: str | None = None  # while it listens
        self.is_deaf = False  # it may not listen: then one asks more often
        self._work: Any = None
        self._numbers = itertools.count()
        self._waiting: dict[bytes, Callable[[], None]] = {}

    def join(self, wake: Callable[[], None]) -> bytes:
        """A number. Until it has left, `wake` is called when a message for it comes."""
        number = b"%d" % next(self._numbers)
        self._waiting[number] = wake
        return number

    def leave(self, number: bytes) -> None:
        self._waiting.pop(number, None)

    def listen(self, link: Link) -> str | None:
        """The channel. None as long as it is not open: it wakes all who wait when it is."""
        if not self.is_deaf and self.channel is None and (self._work is None or self._work.done()):
            line, pool = link.line(), link.pool
            # Beside the pool, which may be small, or in use, and which it does not keep alive.
            line.connection = pool.connection_class(**pool.connection_kwargs)
            self._work = link.go_on(self._listen(line))
        return self.channel

    async def _listen(self, line: Line) -> None:
        channel = f"redis-lock:{uuid.uuid4().hex}"
        try:
            await line.way.came(line.connection.connect())
            await line.send("SUBSCRIBE", channel)
            if await line.hear(BEAT) is None:
                raise ConnectionError("no reply")
            self._opened(channel)
            await self._hear(line)
        except ResponseError as error:
            self.is_deaf = says(error, *MAY_NOT_LISTEN)
        except Exception:  # of a connection that breaks: whatever there is
            pass
        finally:
            if self.channel:  # what was said meanwhile was not heard
                self._opened(None)
            with suppress(Exception):
                await line.close()

    async def _hear(self, line: Line) -> None:
        idle = quiet = 0.0
        while idle < LINGERS and quiet < 2 * BEAT:
            reply = await line.hear(_TICK)
            idle = 0.0 if self._waiting else idle + _TICK
            quiet = quiet + _TICK if reply is None else 0.0
            if quiet == BEAT:
                await line.send("PING")
            if isinstance(reply, (list, tuple)) and len(reply) == 3 and reply[0] in (b"message", "message"):
                wake = self._waiting.get(reply[2].encode() if isinstance(reply[2], str) else reply[2])
                if wake:
                    wake()

    def _opened(self, channel: str | None) -> None:
        self.channel = channel
        for wake in list(self._waiting.values()):
            wake()
