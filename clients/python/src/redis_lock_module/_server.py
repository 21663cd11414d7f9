"""What is known of a server, as long as the pool of its connections is there: whether it has the module, what it can do
without, who waits for it by which connections, and what is to be withdrawn."""

import logging
import math
import time
from typing import Any
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from ._background import after_fork
from ._ear import Ear
from ._request import Request
from ._withdrawals import Withdrawals

logger = logging.getLogger("redis_lock_module")

# The module may be loaded into a server that runs, which no connection notices: so it is asked for now and then.
FORGETS_AFTER = 5.0  # seconds


class Latest:
    """The number of the last grant to an owner, as long as a hold of that owner is remembered."""

    number: int | None


class Room:
    """How many of the pool's connections may wait at a time: the others are there to release by.

    A request that is dropped gives its place back: no interrupt, at whatever point, leaks any."""

    def __init__(self, share: int, at_least: int = 0) -> None:
        self._share, self._at_least = share, at_least
        self._inside: WeakSet[Request] = WeakSet()
        self._line: dict[Request, None] = {}  # those that wait for room, in their order

    def enter(self, request: Request, connections: int) -> bool:
        self._inside.add(request)
        if len(self._inside) > max(self._at_least, connections // self._share):
            self._inside.discard(request)  # two at once may both be refused, and never both let in
            return False
        self._next_after(request)
        return True

    def join(self, request: Request) -> None:
        self._line[request] = None

    def leave(self, request: Request) -> None:
        """The room, or the line before it."""
        self._inside.discard(request)
        self._next_after(request)

    def _next_after(self, request: Request) -> None:
        """May find room, too."""
        self._line.pop(request, None)
        for one in list(self._line)[:1]:
            one.woken.set()


class Server:
    version = ""  # of the module, once that matters

    def __init__(self) -> None:
        self._bare_until = -math.inf
        self._has_said_so = False
        self._latest: WeakValueDictionary[Any, Latest] = WeakValueDictionary()  # by keys and owner
        self.ear = Ear()
        self.waiting: dict[Request, bytes] = {}  # requests of this process that wait without the module, and for what
        self.blocking, self.asking = Room(2), Room(4, at_least=1)  # by BLOCK, and for a place or without the module
        self.withdrawals = Withdrawals()
        self.greatest_lease = math.inf  # of a place, in milliseconds

    def is_bare(self) -> bool:
        return time.monotonic() < self._bare_until

    def misses_the_module(self) -> None:
        self._bare_until = time.monotonic() + FORGETS_AFTER
        if not self._has_said_so:
            self._has_said_so = True
            logger.warning("The server has not loaded the redis-lock module: locks are acquired by SET NX, without "
                           "fencing tokens, and waiting is polling.")

    def granted(self, keys: tuple[bytes, ...], owner: bytes, number: int | None) -> Latest:
        latest = self._latest.setdefault((keys, owner), Latest())
        latest.number = number
        return latest

    def wake_next(self, key: bytes) -> None:
        """The request that has waited longest here tries at once, and not only after its pause."""
        for request, waits_for in list(self.waiting.items()):
            if waits_for == key:
                request.woken.set()
                return


_servers: WeakKeyDictionary[Any, Server] = WeakKeyDictionary()
after_fork(_servers.clear)  # what waits, listens or is withdrawn, is the parent's


def server_of(pool: Any) -> Server:
    server = _servers.get(pool)
    return server if server is not None else _servers.setdefault(pool, Server())
