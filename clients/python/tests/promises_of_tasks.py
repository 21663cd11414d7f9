"""The program by which tests/clients/promises tests the Lock for asyncio. Its lines are described in program.py there."""

import asyncio
import sys

import redis.asyncio

from promises import options_of, losses, word_for
from redis_lock_module.asyncio import Lock

holds = []


async def acquire(client, keys, ttl, *words):
    options, how = options_of(words, len(holds))
    keys = keys.split(",") if "," in keys else keys
    hold = await Lock(client, keys, timeout=int(ttl) / 1000, **options).hold(**how)
    holds.append(hold)
    return f"hold {len(holds) - 1} {hold.fence or '-'}"


async def release(client, number):
    await holds[int(number)].release()
    return "ok"


async def renew(client, number, ttl):
    await holds[int(number)].renew(int(ttl) / 1000)
    return "ok"


async def held(client, number):
    return "yes" if holds[int(number)].held else "no"


async def guard(client, number, *command):
    reply = await holds[int(number)].guard(*command)
    return f"reply {reply.decode() if isinstance(reply, bytes) else reply}"


async def told(client, number):
    return str(losses[int(number)])


WORK = {"acquire": acquire, "release": release, "renew": renew, "held": held, "guard": guard, "losses": told}


async def outcome_of(work):
    try:
        return await work
    except asyncio.CancelledError:
        return "cancelled"
    except Exception as error:
        return word_for(error)


def connect(port):
    print("ready", flush=True)
    return redis.asyncio.Redis(port=int(port), socket_timeout=5)


async def main():
    client = connect(sys.argv[1])
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        verb, *words = line.decode().split()
        if verb == "connect":
            client = connect(*words)
            continue
        if verb == "rest":
            await client.aclose()
            continue
        if verb == "forked":
            print("cannot", flush=True)  # a child has no loop
            continue
        doing = asyncio.ensure_future(WORK[verb](client, *words))
        if "cancellable" in words:
            cancel = asyncio.ensure_future(lines.readline())
            await asyncio.wait({doing, cancel}, return_when=asyncio.FIRST_COMPLETED)
            doing.cancel()
            await asyncio.wait({doing, cancel})
        print(await outcome_of(doing), flush=True)


asyncio.run(main())
