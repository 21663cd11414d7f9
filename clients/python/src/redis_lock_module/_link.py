"""How to speak to the server. Written once for threads and for tasks: what waits is awaited, and a thread that awaits
simply waits (`finish` in _errand.py runs what never gives way to an event loop)."""

from __future__ import annotations

import random
import time
from typing import Any, Awaitable, Callable, Coroutine, TypeVar

from redis.exceptions import (ConnectionError, MaxConnectionsError, RedisClusterException, RedisError, ResponseError,
                              TimeoutError)

from ._ear import Ear
from ._errors import NotOwner, is_elsewhere, uses_all_connections
from ._request import Request
from ._server import Server, Ticket, server_of
from ._words import Name, Words

T = TypeVar("T")

_TIMES = 5  # so often something is said at most, where there is no reply
_MOVES_FOR = 5.0  # so long a slot may be on its way, in seconds
_WITHOUT_ROOM = 1.0  # so long one waits for its turn without a look, in seconds: an interrupt may have kept it from being woken
_CROWDED_FOR = 5.0  # so long all connections may be in use, while something is to be released


class Line:
    """A connection that one caller has to itself for a while, and by which nothing is said twice."""

    def __init__(self, way: type[Link]) -> None:
        self._way = way
        self.connection: Any = None
        self.is_whole = True  # the next that has it finds it as it was

    async def open_beside(self, pool: Any) -> None:
        """A connection beside the pool, which may be small, or in use."""
        if pool is None:
            raise ConnectionError("there is no pool any more")
        self.connection = pool.connection_class(**pool.connection_kwargs)
        await self._done(self.connection.connect())

    async def say(self, *words: Any, raw: bool = False, limit: float | None = None) -> Any:
        """With the reply. `limit` is the time for this one alone, instead of the client's."""
        # A check of its health would be made with the client's own patience.
        sending = self.connection.send_command(*words, check_health=limit is None)
        if self._way.is_async:
            await sending
        if limit is not None:
            return await self._way.read(self.connection, limit)
        reply = self.connection.read_response(disable_decoding=raw)
        return await reply if self._way.is_async else reply

    async def say_both(self, *commands: Words) -> list[Any]:
        """In one pipeline. An error of the server's is a reply."""
        replies: list[Any] = []
        await self._done(self.connection.send_packed_command(self.connection.pack_commands(commands)))
        for _ in commands:
            try:
                reply = self.connection.read_response()
                replies.append(await reply if self._way.is_async else reply)
            except ResponseError as error:
                replies.append(error)
        return replies

    async def send(self, *words: Any) -> None:
        await self._done(self.connection.send_command(*words, check_health=False))

    async def hear(self, seconds: float) -> Any:
        return await self._way.hear(self.connection, seconds)

    async def close(self) -> None:
        await self._done(self.connection.disconnect(**self._way.at_once))

    async def _done(self, result: Any) -> None:
        if self._way.is_async:
            await result


class Link:
    """A client of redis-py, and the node of a cluster where a key is. Threads and tasks have each their own way to send
    and to wait: what is only declared here."""

    clients: tuple[type, type]  # for one server, and of a cluster
    clients_of_others: tuple[type, type]  # two classes of the same name are easily mixed up
    needs: str
    mixed_up: str
    is_cluster: bool
    is_async: bool  # what redis-py returns is awaited
    may_be_interrupted: bool  # while it waits for a reply; a task may not, and has that done in the background
    at_once: dict[str, Any]  # how to disconnect
    is_single: Callable[[], bool]  # the client has one connection for all that it says
    get_ready: Callable[[], Awaitable[None]]  # so that the node is known; of tasks alone
    node_pool: Callable[[], Any]  # of the node where the key is
    ask: Callable[[Words], Awaitable[Any]]  # by the client itself, wherever the lock is: for what may be said twice
    read: Callable[..., Awaitable[Any]]  # from a connection, within a time that may be infinite
    hear: Callable[..., Awaitable[Any]]  # what the server says by itself; None if that is nothing for so long
    sleep: Callable[[float], Awaitable[None]]
    rest: Callable[[Request, float], Awaitable[None]]  # for so long, or until the request is woken
    place: Callable[[], object]  # where all this happens: a loop, or None
    me: Callable[[], Any]  # who asks: a thread, or a task
    has_ended: Callable[[Any], bool]  # one of these
    releaser: Callable[[], object]  # who may release anew what is being released: an interrupted thread, but no task
    new_event: Callable[[], Any]  # for callers
    new_bell: Callable[[], Any]  # for a request that rests
    call_at: Callable[..., Any]  # at a time, a function that does not wait
    go_on: Callable[[Coroutine[Any, Any, object]], Any]  # in the background. None if there are too many threads
    begin: Callable[[Request, Coroutine[Any, Any, object]], None]  # in the background, as what the request is asking
    wait: Callable[[Any, float], Awaitable[bool]]  # for the end of what goes on in the background: whether that has come
    leave: Callable[..., Awaitable[None]]  # what is to be ended by such work; the caller waits for that a little, or not
    see_through: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]  # also if the task that waits for it is cancelled

    def __init__(self, client: Any, key: Name) -> None:
        if not isinstance(client, self.clients):
            raise TypeError(self.mixed_up if isinstance(client, self.clients_of_others) else
                            f"a lock needs a client of redis-py, {self.needs}, not {client!r}")
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

    def ear(self) -> Ear | None:
        ear = None if self.is_cluster else self.server.ear(self.place())
        return None if ear is None or ear.is_deaf else ear

    def line(self) -> Line:
        return Line(type(self))

    def connections(self) -> int:
        """How many there may be at most."""
        try:
            return int(self.node_pool().max_connections)
        except RedisError:  # it is not known just now where the key is
            return 0

    async def talk(self, talk: Callable[[Line], Awaitable[T]]) -> T:
        """By a connection of the pool. An error of the server's leaves it as it was, any other one closes it."""
        line, is_whole = self.line(), False
        if self.is_async:
            await self.get_ready()
        pool = self.node_pool()
        try:
            taking = pool.get_connection()
            line.connection = await taking if self.is_async else taking
            result = await talk(line)
            is_whole = line.is_whole
            return result
        except (ResponseError, NotOwner):
            is_whole = line.is_whole
            raise
        finally:
            if line.connection is not None:
                if not is_whole:
                    await line.close()
                releasing = pool.release(line.connection)
                if self.is_async:
                    await releasing

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

    async def ask_beside(self, words: Words) -> Any:
        """By a connection of its own, also where the client has one for all: for what waits for replicas."""
        return (await self.told(lambda line: line.say(*words)))[0]

    async def _find(self) -> None:
        await self.ask(("EXISTS", self.key))
        await self.sleep(0.01)

    async def ask_in_turn(self, request: Request, question: Callable[[], Awaitable[T]]) -> T:
        """A crowd that asks leaves connections to those who release."""
        room, ticket = self.server.asking, Ticket()
        if not room.enter(ticket, self.connections()):
            room.join(request)
            try:
                while not room.enter(ticket, self.connections()):
                    if request.is_over():
                        raise MaxConnectionsError("Too many connections")
                    await self.rest(request, request.for_a_while(_WITHOUT_ROOM))
                    request.woken.clear()  # it is about to ask
            finally:
                room.step_out(request)
        try:
            request.asked = time.monotonic()
            return await question()
        finally:
            room.leave(ticket)
