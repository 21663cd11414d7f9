"""How to speak to the server. Written once for threads and for tasks: what waits is awaited, and a thread that awaits
simply waits (`finish` runs what never gives way to an event loop)."""

from __future__ import annotations

import random
import time
from typing import Any, Awaitable, Callable, Coroutine, Optional, Tuple, TypeVar

from redis.exceptions import ConnectionError, MaxConnectionsError, RedisClusterException, ResponseError, TimeoutError

from ._ear import Ear
from ._errors import is_elsewhere, uses_all_connections
from ._request import Request
from ._room import Ticket, rooms
from ._server import Server, server_of
from ._words import Name, Words

T = TypeVar("T")

_TIMES = 5  # so often a thing is told at most, where no answer comes
_MOVES_FOR = 5.0  # so long a slot may be on its way, in seconds
_CROWDED_FOR = 5.0  # so long all connections may be in use, while something is to be released


def finish(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a thread has no event loop to give way to")


class Line:
    """A connection that one caller has to itself for a while, and by which nothing is said twice."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.is_whole = True  # the next that has it finds it as it was

    async def say(self, *words: Any, raw: bool = False, limit: Optional[float] = None) -> Any:
        raise NotImplementedError


Talk = Callable[[Line], Awaitable[T]]


class Link:
    """A client of redis-py, and the node of a cluster where a key is."""

    is_cluster: bool

    def __init__(self, client: Any, key: Name) -> None:
        self.client, self.key = client, key

    @property
    def pool(self) -> Any:
        """What is shared by all who use this client, and has the connections."""
        raise NotImplementedError

    @property
    def server(self) -> Server:
        return server_of(self.pool)

    def connections(self) -> int:
        """How many there may be at most."""
        raise NotImplementedError

    def is_single(self) -> bool:
        """Whether the client has one connection for all that it says."""
        raise NotImplementedError

    def ear(self) -> Optional[Ear]:
        raise NotImplementedError

    async def get_ready(self) -> None:
        pass

    async def ask(self, words: Words) -> Any:
        """By the client itself: with its retries, and wherever the lock is by now. For what may be said twice."""
        raise NotImplementedError

    async def within(self, request: Request, work: Callable[[], Awaitable[T]], left: Callable[[], object],
                     too_late: Callable[[], object]) -> T:
        """For no longer than the request listens for replies; then `left` is called, and `too_late` when the work has
        ended."""
        raise NotImplementedError

    async def talk(self, talk: Talk[T], request: Optional[Request] = None) -> T:
        """By a connection of the pool. An error of the server's leaves it as it was, any other one closes it. A request
        waits for it no longer than it listens for replies."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    def go_on(self, withdrawal: Any) -> None:
        """In the background."""
        raise NotImplementedError

    async def rest(self, request: Request, seconds: float) -> None:
        """For so long, or until the request is woken."""
        raise NotImplementedError

    async def told_once(self, talk: Talk[T], crowded_for: float = _CROWDED_FOR) -> T:
        """Said again only to where it is now, and so was refused before. Of a crowd that gives up at once, each waits
        for a connection."""
        began = time.monotonic()
        while True:
            try:
                return await self.talk(talk)
            except ConnectionError as error:
                if not uses_all_connections(error) or time.monotonic() >= began + crowded_for:
                    raise
                await self.sleep(random.uniform(0.001, 0.02))
            except (ResponseError, RedisClusterException) as error:
                if not is_elsewhere(error) or time.monotonic() >= began + _MOVES_FOR:
                    raise
                await self._find()

    async def told(self, talk: Talk[T]) -> Tuple[T, bool]:
        """What comes of it, and whether it was said again because no reply to it had come."""
        for times in range(1, _TIMES):
            try:
                return await self.told_once(talk), times > 1
            except (ConnectionError, TimeoutError):
                await self._find()  # with the client's own patience, or its own error
        return await self.told_once(talk), True

    async def _find(self) -> None:
        await self.ask(("EXISTS", self.key))
        await self.sleep(0.01)

    async def ask_in_turn(self, request: Request, question: Callable[[], Awaitable[T]]) -> T:
        """A crowd that asks leaves connections to those who release."""
        room, ticket, pause = rooms[1], Ticket(), 0.001
        while not room.enter(self.pool, ticket, self.connections(), at_least=1):
            if request.is_over():
                raise MaxConnectionsError("Too many connections")
            await self.sleep(request.for_a_while(pause))
            pause = min(pause * 2, 0.05)
        try:
            return await question()
        finally:
            room.leave(self.pool, ticket)

    async def block(self, request: Request, words: Words) -> Any:
        async def talk(line: Line) -> Any:
            request.left = request.blocks = True
            try:
                return await line.say(*words, limit=max(0.0, request.listens_for()))
            finally:
                request.blocks = False

        return await self.talk(talk, request)
