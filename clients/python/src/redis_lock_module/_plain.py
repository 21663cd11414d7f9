"""An exclusive lock of one key on a server without the module.

The key is the same as with it, its value is the owner, and its expiry the end: so clients with and without the module
exclude each other, and a hold that was taken in one way is released, renewed and guarded in the other.

What has to compare and act in one step does so by one command where the server has one (Redis 8.4, Valkey 8.1 and 9.0),
else by WATCH and MULTI on a connection of its own. That needs no script, which some users may not run.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

from redis.exceptions import ResponseError

from ._errors import NotOwner, misses_a_command
from ._link import Line, Link
from ._words import Name, Words

FIRST_PAUSE, LONGEST_PAUSE = 0.01, 1.0  # between two questions of one who waits, in seconds


async def set_if_free(link: Link, key: Name, owner: bytes, ttl: int) -> bool:
    async def talk(line: Line) -> bool:
        return bool(await line.say("SET", key, owner, "NX", "PX", ttl))

    return bool(await link.told_once(talk, crowded_for=0))


async def renew(link: Link, key: Name, owner: bytes, ttl: int) -> bool:
    if link.server.sets_if_equal:
        try:
            return bool(await link.ask(("SET", key, owner, "IFEQ", owner, "PX", ttl)))
        except ResponseError as error:
            if "syntax error" not in str(error):
                raise
            link.server.sets_if_equal = False
    try:
        return bool((await link.told(lambda line: _if_owner(line, key, owner, "PEXPIRE", key, ttl)))[0])
    except NotOwner:
        return False


async def release(link: Link, key: Name, owner: bytes) -> Tuple[bool, bool]:
    """Whether it was held, and whether that had to be said again."""
    while link.server.deletes_by:
        command = link.server.deletes_by[0]
        words = (command, key, "IFEQ", owner) if command == "DELEX" else (command, key, owner)
        try:
            reply, again = await link.told(lambda line: line.say(*words))
            return bool(reply), again
        except ResponseError as error:
            if not misses_a_command(error):
                raise
            link.server.deletes_by = [other for other in link.server.deletes_by if other != command]
    again = False

    async def delete(line: Line) -> bool:
        try:
            return bool(await _if_owner(line, key, owner, "DEL", key))
        except NotOwner:
            return False

    reply, again = await link.told(delete)
    return reply, again


async def remaining(link: Link, key: Name, owner: bytes) -> Optional[int]:
    """In milliseconds, -1 without expiry, None if another owner holds it."""
    try:
        left = (await link.told(lambda line: _if_owner(line, key, owner, "PTTL", key)))[0]
    except NotOwner:
        return None
    return None if left == -2 else max(left, 1) if left >= 0 else -1


async def guard(link: Link, key: Name, owner: bytes, command: Words) -> Any:
    return await link.told_once(lambda line: _if_owner(line, key, owner, *command))


async def _if_owner(line: Line, key: Name, owner: bytes, *command: Any) -> Any:
    while True:
        line.is_whole = False
        await line.say("WATCH", key)
        if await line.say("GET", key, raw=True) != owner:
            await line.say("UNWATCH")
            line.is_whole = True
            raise NotOwner
        await line.say("MULTI")
        await line.say(*command)
        replies = await line.say("EXEC")
        line.is_whole = True
        if replies is not None:  # else a client has touched the key: its own holder, which renews it, maybe
            if isinstance(replies[0], Exception):
                raise replies[0]
            return replies[0]
