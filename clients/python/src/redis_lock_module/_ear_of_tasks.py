"""The ear of a pool that tasks use: a task that listens."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Optional
from weakref import WeakKeyDictionary, ref

from redis.exceptions import ResponseError

from ._ear import BEAT, LINGERS, Ear
from ._errors import may_not_listen

FOR_EVER = 1e8  # asyncio's connections take None for "as long as the client says"


class TaskEar(Ear):
    def __init__(self, pool: Any) -> None:
        super().__init__()
        self._pool = ref(pool)
        self.loop = asyncio.get_running_loop()
        self._task: Optional["asyncio.Task[None]"] = None
        self._beat: Optional[asyncio.TimerHandle] = None
        self._quiet = 0  # for how many beats nothing was heard
        self._idle = 0.0

    def open(self) -> None:
        if self._task is None or self._task.done():
            self._task = self.loop.create_task(self._listen())

    async def _listen(self) -> None:
        connection: Any = None
        try:
            pool = self._pool()
            if pool is None:
                return
            # Beside the pool, which may be small, or in use.
            connection = pool.connection_class(**pool.connection_kwargs)
            del pool
            await connection.connect()
            channel = self.new_channel()
            await connection.send_command("SUBSCRIBE", channel)
            await self._read(connection)
            self._quiet = 0
            self._tick(connection)
            self.opened(channel)
            while True:
                self.hear(await self._read(connection))
                self._quiet = 0
        except ResponseError as error:
            self.is_deaf = may_not_listen(error)
        except Exception:  # of a connection that breaks, or is closed by us: whatever there is
            pass
        finally:
            if self._beat:
                self._beat.cancel()
            self.closed()
            if connection is not None:
                with suppress(Exception):
                    await connection.disconnect(nowait=True)

    @staticmethod
    async def _read(connection: Any) -> Any:
        return await connection.read_response(disable_decoding=True, push_request=True, timeout=FOR_EVER)

    def _tick(self, connection: Any) -> None:
        """Closes it when no task waits any more, or the server does not answer."""
        self._idle = 0.0 if self.is_needed() else self._idle + LINGERS / 2
        self._quiet += 1
        beats = int(BEAT / (LINGERS / 2))
        if self._task and (self._idle > LINGERS or self._quiet >= 2 * beats):
            self._task.cancel()
            return
        if self._quiet == beats:
            asyncio.ensure_future(self._ping(connection))
        self._beat = self.loop.call_later(LINGERS / 2, self._tick, connection)

    @staticmethod
    async def _ping(connection: Any) -> None:
        with suppress(Exception):
            await connection.send_command("PING")


_ears: WeakKeyDictionary[Any, TaskEar] = WeakKeyDictionary()


def ear_of(pool: Any) -> TaskEar:
    ear = _ears.get(pool)
    if ear is None or ear.loop is not asyncio.get_running_loop():
        ear = _ears[pool] = TaskEar(pool)
    return ear
