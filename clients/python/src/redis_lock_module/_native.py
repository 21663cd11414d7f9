"""What is done with a hold by the commands of the module. Without it: _plain.py, by functions of the same names."""

from __future__ import annotations

from typing import Any

from redis.exceptions import ResponseError

from ._errors import NotOwner, says
from ._link import Link
from ._words import Spelling, Words


async def release(link: Link, spelling: Spelling, owner: bytes) -> tuple[bool, bool]:
    words = spelling.release(owner)
    reply, again = await link.told(lambda line: line.say(*words))
    return spelling.all_released(reply), again


async def renew(link: Link, spelling: Spelling, owner: bytes, ttl: int) -> bool:
    words = spelling.renew(owner, ttl)
    return bool(await (link.ask_beside(words) if spelling.replicas else link.ask(words)) == 1)


async def remaining(link: Link, spelling: Spelling, owner: bytes) -> int | None:
    lefts = [await link.ask(check) for check in spelling.checks(owner)]
    if not all(lefts):
        return None
    return min((left for left in lefts if left > 0), default=-1)


async def guard(link: Link, spelling: Spelling, owner: bytes, command: Words) -> Any:
    words = spelling.guard(owner, command)
    try:
        return await link.told_once(lambda line: line.say(*words))
    except ResponseError as error:
        if says(error, "NOTOWNER"):
            raise NotOwner from error
        raise
