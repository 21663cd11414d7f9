"""How to speak to the server. Written once for threads and for tasks: what waits is awaited, and a thread that awaits
simply waits (`finish` in _background.py runs what never gives way to an event loop)."""

from __future__ import annotations

import asyncio
import math
import random
import time
from contextlib import suppress
from typing import Any, Awaitable, Callable, Coroutine, TypeVar

from redis.exceptions import (ConnectionError, MaxConnectionsError, RedisClusterException, RedisError, ResponseError,
                              TimeoutError)

from ._errors import NotOwner, is_elsewhere, uses_all_connections
from ._options import Name, Words
from ._request import Request
from ._server import Server, server_of

T = TypeVar("T")

PATIENCE = 2.0  # for how long a caller that gives up waits for what it gives up, in seconds
_PAUSE = 0.1  # so long a loop that was held up has to read a reply that has come
_TIMES = 5  # so often something is said at most, where there is no reply
_MOVES_FOR = 5.0  # so long a slot may be on its way, in seconds
_WITHOUT_ROOM = 1.0  # so long one waits for its turn without a look, in seconds: an interrupt may have kept it from being woken
_CROWDED_FOR = 5.0  # so long all connections may be in use, while something is to be released


class Line:
    """A connection that one caller has to itself for a while, and by which nothing is said twice."""

    def __init__(self, way: type[Link]) -> None:
        self.way = way
        self.connection: Any = None
        self.is_whole = True  # the next that has it finds it as it was

    async def say(self, *words: Any, raw: bool = False, waits: float | None = None) -> Any:
        """With the reply, for which the server may wait so long."""
        # A check of its health would be made with the client's own patience.
        await self.way.came(self.connection.send_command(*words, check_health=waits is None))
        if waits is not None:
            limit = waits + (self.connection.socket_timeout or math.inf)
            return await self.way.read(self.connection, None if limit == math.inf else limit)
        return await self.way.came(self.connection.read_response(disable_decoding=raw))

    async def send(self, *words: Any) -> None:
        await self.way.came(self.connection.send_command(*words, check_health=False))

    async def hear(self, seconds: float) -> Any:
        return await self.way.hear(self.connection, seconds)

    async def close(self) -> None:
        await self.way.came(self.connection.disconnect(**self.way.at_once))


class Link:
    """A client of redis-py, and the node of a cluster where a key is. Threads and tasks have each their own way to send
    and to wait: what is only declared here."""

    clients: tuple[type, type]  # for one server, and of a cluster
    needs: str  # in words
    is_cluster: bool
    may_be_interrupted: bool  # while it waits for a reply; a task may not, and has that done in the background
    at_once: dict[str, Any]  # how to disconnect
    node_pool: Callable[[], Awaitable[Any]]  # of the node where the key is
    came: Callable[[Any], Awaitable[Any]]  # what a function of redis-py returns, when it has come
    ask: Callable[[Words], Awaitable[Any]]  # by the client itself, wherever the lock is: for what may be said twice
    read: Callable[[Any, float | None], Awaitable[Any]]  # from a connection, within so long
    hear: Callable[[Any, float], Awaitable[Any]]  # what the server says by itself; None if that is nothing for so long
    sleep: Callable[[float], Awaitable[None]]
    rest: Callable[[Any, float], Awaitable[None]]  # for so long, or until the bell rings
    me: Callable[[], Any]  # who asks: a thread, or a task
    has_ended: Callable[[Any], bool]  # one of these
    new_event: Callable[[], Any]  # for callers
    new_bell: Callable[[], Any]
    call_at: Callable[..., Any]  # at a time, a function that does not wait
    work: Callable[[Coroutine[Any, Any, Any]], Any]  # is done in the background, from its `start` on; rings when it has ended

    def __init__(self, client: Any, key: Name) -> None:
        if not isinstance(client, self.clients):
            raise TypeError(f"this lock needs a client of redis-py, {self.needs}; not {client!r}")
        self.client: Any = client
        self.key = key
        self.is_cluster = not isinstance(client, self.clients[0])

    @property
    def pool(self) -> Any:
        """What is shared by all who use this client, and has the connections."""
        return self.client if self.is_cluster else self.client.connection_pool

    @property
    def server(self) -> Server:
        return server_of(self.pool)

    def is_single(self) -> bool:
        """The client has one connection for all that it says."""
        return bool(getattr(self.client, "single_connection_client", False) or getattr(self.client, "connection", None))

    def line(self) -> Line:
        return Line(type(self))

    async def connections(self) -> int:
        """How many there may be at most."""
        try:
            return int((await self.node_pool()).max_connections)
        except RedisError:  # it is not known just now where the key is
            return 0

    async def talk(self, talk: Callable[[Line], Awaitable[T]]) -> T:
        """By a connection of the pool. An error of the server's leaves it as it was, any other one closes it."""
        line, pool = self.line(), await self.node_pool()
        try:
            line.connection = await self.came(pool.get_connection())
            return await talk(line)
        except BaseException as error:
            line.is_whole = line.is_whole and isinstance(error, (ResponseError, NotOwner))
            raise
        finally:
            if line.connection is not None:
                if not line.is_whole:
                    await line.close()
                await self.came(pool.release(line.connection))

    async def told_once(self, talk: Callable[[Line], Awaitable[T]], crowded_for: float = _CROWDED_FOR) -> T:
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

    async def told(self, talk: Callable[[Line], Awaitable[T]]) -> tuple[T, bool]:
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
        room, connections = self.server.asking, await self.connections()
        try:
            while not room.enter(request, connections):
                room.join(request)
                if request.is_over():
                    raise MaxConnectionsError("Too many connections")
                await self.rest(request.woken, request.for_a_while(_WITHOUT_ROOM))
                request.woken.clear()  # it is about to ask
            request.asked = time.monotonic()
            return await question()
        finally:
            room.leave(request)

    def go_on(self, work: Coroutine[Any, Any, Any]) -> Any:
        doing = self.work(work)
        doing.start()
        return doing

    async def wait(self, doing: Any, seconds: float) -> bool:
        if not doing.done():
            await self.rest(doing.ended, seconds)
        return bool(doing.done())

    async def linger(self, bell: Any) -> None:
        """Of one that is cancelled, or interrupted. anyio cancels in each turn of the loop, until the task has ended."""
        with suppress(asyncio.CancelledError):
            await self.rest(bell, PATIENCE)

    async def see_through(self, work: Coroutine[Any, Any, T]) -> T:
        """Also if the task that waits for it is cancelled."""
        if self.may_be_interrupted:
            return await work
        doing = self.go_on(work)
        try:
            await self.wait(doing, math.inf)
        except BaseException:
            await self.linger(doing.ended)
            raise
        result: T = doing.result()
        return result

    async def in_time(self, request: Request, work: Coroutine[Any, Any, T]) -> T:
        """What is done in the background is not interrupted in the middle of a reply, and can be left alone."""
        if request.replies_until == math.inf and self.may_be_interrupted:
            return await work
        request.asking = self.work(work)  # known before an interrupt can come
        request.asking.start()
        # The loop may have been held up, and have the reply.
        if not await self.wait(request.asking, request.listens_for()) and not await self.wait(request.asking, _PAUSE):
            raise TimeoutError("no reply in time")
        result: T = request.asking.result()
        return result
