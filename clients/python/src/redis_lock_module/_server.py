"""What is known of a server: whether it has the module, and what it can do without."""

from __future__ import annotations

import logging
import math
import os
import time
from typing import Any, Dict, List
from weakref import WeakKeyDictionary, WeakValueDictionary

from ._request import Latest
from ._words import Name, encoded

logger = logging.getLogger("redis_lock_module")

# The module may be loaded into a server that runs, which no connection notices: so it is asked for now and then.
FORGETS_AFTER = 5.0  # seconds


class Server:
    runs_scripts = True  # until one is refused
    version = ""  # of the module, once that matters

    def __init__(self) -> None:
        self._bare_until = -math.inf
        self._has_said_so = False
        self.latest: WeakValueDictionary[Any, Latest] = WeakValueDictionary()  # by keys and owner
        self.withdrawals: List[Any] = []
        self._waiting: Dict[Any, bytes] = {}  # requests of this process that wait without the module, and for what
        self.greatest_lease = math.inf  # of a place, in milliseconds

    def is_bare(self) -> bool:
        return time.monotonic() < self._bare_until

    def misses_the_module(self) -> None:
        self._bare_until = time.monotonic() + FORGETS_AFTER
        if not self._has_said_so:
            self._has_said_so = True
            logger.warning("The server has not loaded the redis-lock module: locks are acquired by SET NX, without "
                           "fencing numbers, and waiting is asking again and again.")

    def join(self, request: Any, key: Name) -> None:
        self._waiting[request] = encoded(key)

    def leave(self, request: Any) -> None:
        self._waiting.pop(request, None)

    def wake_next(self, key: Name) -> None:
        """The request that has waited longest here tries at once, and not only after its pause."""
        free = encoded(key)
        for request, waits_for in list(self._waiting.items()):
            if waits_for == free:
                request.woken.set()
                return


_servers: WeakKeyDictionary[Any, Server] = WeakKeyDictionary()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_servers.clear)  # what waits, or is withdrawn, is the parent's


def server_of(pool: Any) -> Server:
    return _servers.setdefault(pool, Server())
