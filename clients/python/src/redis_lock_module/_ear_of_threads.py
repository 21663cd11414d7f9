"""The ear of a pool that threads use: a thread that listens."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import Any, Optional
from weakref import WeakKeyDictionary, ref

from redis.exceptions import ConnectionError, ResponseError

from ._ear import BEAT, LINGERS, Ear
from ._errors import may_not_listen


class ThreadEar(Ear):
    def __init__(self, pool: Any) -> None:
        super().__init__()
        self._pool = ref(pool)
        self._thread: Optional[threading.Thread] = None

    def open(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._listen, name="redis-lock ear", daemon=True)
            with suppress(RuntimeError):  # there are too many threads: one asks more often
                self._thread.start()

    def _listen(self) -> None:
        connection: Any = None
        try:
            connection = self._connect()
            channel = self.new_channel()
            connection.send_command("SUBSCRIBE", channel)
            self._read(connection)
            self.opened(channel)
            self._hear_until_nobody_waits(connection)
        except ResponseError as error:
            self.is_deaf = may_not_listen(error)
        except Exception:  # of a connection that breaks: whatever there is
            pass
        finally:
            self.closed()
            if connection is not None:
                with suppress(Exception):
                    connection.disconnect()

    def _connect(self) -> Any:
        """Beside the pool, which may be small, or in use."""
        pool = self._pool()
        if pool is None:
            raise ConnectionError("there is no pool any more")
        connection = pool.connection_class(**pool.connection_kwargs)
        connection.connect()
        return connection

    @staticmethod
    def _read(connection: Any) -> Any:
        return connection.read_response(disable_decoding=True, push_request=True)

    def _hear_until_nobody_waits(self, connection: Any) -> None:
        idle_since, heard, asked = None, time.monotonic(), False
        while True:
            now = time.monotonic()
            if self.is_needed():
                idle_since = None
            elif idle_since is None:
                idle_since = now
            elif now - idle_since >= LINGERS:
                return
            if connection.can_read(timeout=LINGERS):
                self.hear(self._read(connection))
                heard, asked = time.monotonic(), False
            elif now - heard >= 2 * BEAT:
                raise ConnectionError("no reply")
            elif now - heard >= BEAT and not asked:
                connection.send_command("PING")
                asked = True


_ears: WeakKeyDictionary[Any, ThreadEar] = WeakKeyDictionary()


def ear_of(pool: Any) -> ThreadEar:
    ear = _ears.get(pool)
    return ear if ear is not None else _ears.setdefault(pool, ThreadEar(pool))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ears.clear)  # a child has no thread that listens
