"""An exclusive lock of one key on a server without the module.

The key is the same as with it, its value is the owner, and its expiry the end: so clients with and without the module
exclude each other, and a hold that was taken in one way is released, renewed and guarded in the other.

What has to compare and act in one step does so by a script, which is one round trip. For users who may not run one, and
to guard any command at all, it is done by WATCH and MULTI on a connection of its own.
"""

from __future__ import annotations

from typing import Any

from redis.exceptions import ResponseError

from ._errors import NotOwner, misses_a_command
from ._link import Line, Link
from ._words import Spelling, Words

_IF_OWNER = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return nil end
return redis.call(ARGV[2], KEYS[1], unpack(ARGV, 3))
"""


_REPLICAS_TAKE = 1000  # milliseconds at most, as by default with the module


async def _say(line: Line, replicas: int | None, *words: Any) -> Any:
    """What changes the key, and waits for so many replicas to have acknowledged that."""
    if not replicas:
        return await line.say(*words)
    reply, count = await line.say_both(words, ("WAIT", replicas, _REPLICAS_TAKE))
    if isinstance(reply, Exception):
        raise reply
    if reply:
        _check(replicas, count)
    return reply


def _check(replicas: int, count: Any) -> None:
    if isinstance(count, Exception):  # a user, or a server, that may not WAIT
        raise ResponseError(f"NOREPLICAS WAIT is refused: {count}") from count
    if count < replicas:
        raise ResponseError(f"NOREPLICAS {count} of {replicas} replicas have acknowledged it within "
                            f"{_REPLICAS_TAKE} milliseconds")


async def set_if_free(link: Link, spelling: Spelling, owner: bytes, ttl: int) -> bool:
    words = "SET", spelling.name, owner, "NX", "PX", ttl
    return bool(await link.told_once(lambda line: _say(line, spelling.replicas, *words), crowded_for=0))


async def renew(link: Link, spelling: Spelling, owner: bytes, ttl: int) -> bool:
    return bool((await _if_owner(link, spelling, owner, "PEXPIRE", ttl, replicas=spelling.replicas))[0])


async def release(link: Link, spelling: Spelling, owner: bytes) -> tuple[bool, bool]:
    """Whether it was held, and whether that had to be said again."""
    reply, again = await _if_owner(link, spelling, owner, "DEL")
    link.server.wake_next(spelling.name)
    return bool(reply), again


async def remaining(link: Link, spelling: Spelling, owner: bytes) -> int | None:
    """In milliseconds, -1 without expiry, None if another owner holds it."""
    left = (await _if_owner(link, spelling, owner, "PTTL"))[0]
    return None if left in (None, -2) else max(left, 1) if left >= 0 else -1


async def _if_owner(link: Link, spelling: Spelling, owner: bytes, verb: str, *words: Any,
                    replicas: int | None = None) -> tuple[Any, bool]:
    """The reply to a command on the key, None if another owner holds it; and whether that had to be said again."""
    key = spelling.name
    if link.server.runs_scripts:
        try:
            return await link.told(lambda line: _say(line, replicas, "EVAL", _IF_OWNER, 1, key, owner, verb, *words))
        except ResponseError as error:
            if not misses_a_command(error):
                raise
            link.server.runs_scripts = False

    async def by_watching(line: Line) -> Any:
        try:
            reply = await _watch(line, key, owner, verb, key, *words)
        except NotOwner:
            return None
        if replicas and reply:
            _check(replicas, await line.say("WAIT", replicas, _REPLICAS_TAKE))
        return reply

    return await link.told(by_watching)


async def guard(link: Link, spelling: Spelling, owner: bytes, command: Words) -> Any:
    return await link.told_once(lambda line: _watch(line, spelling.name, owner, *command))


async def _watch(line: Line, key: Any, owner: bytes, *command: Any) -> Any:
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
