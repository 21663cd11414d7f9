"""The program by which tests/clients/promises tests the Lock for threads. Its lines are described in program.py there."""

import itertools
import os
import sys

import redis

from redis_lock_module import DeadlockError, Lock, ModuleMissingError

holds, losses = [], {}


def options_of(words, number):
    given = dict(word.partition("=")[::2] for word in words)
    wait = given.pop("wait", None)
    how = {"blocking": wait is not None, "token": given.pop("owner", None)}
    if wait not in (None, "forever"):
        how["blocking_timeout"] = int(wait) / 1000
    losses[number] = 0

    def on_lost():
        losses[number] += 1

    options = {
        "renew": "renew" in given, "shared": "shared" in given, "require_module": "module" in given,
        "limit": int(given["limit"]) if "limit" in given else None,
        "max_queue": int(given["max-queue"]) if "max-queue" in given else None,
        "owner_prefix": given.get("prefix"), "fair": given.get("fair"),
        "replicas": int(given["replicas"]) if "replicas" in given else None,
        "per": int(given["per"]) if "per" in given else None,
        "on_lost": on_lost,
    }
    return options, how


def acquire(keys, ttl, *words):
    if "cancellable" in words:
        return "cannot"  # what blocks a thread is ended by an interrupt alone
    options, how = options_of(words, len(holds))
    hold = Lock(client, keys.split(",") if "," in keys else keys, timeout=int(ttl) / 1000, **options).hold(**how)
    holds.append(hold)
    return f"hold {len(holds) - 1} {hold.fence or '-'}"


def release(number):
    holds[int(number)].release()
    return "ok"


def renew(number, ttl):
    holds[int(number)].renew(int(ttl) / 1000)
    return "ok"


def held(number):
    return "yes" if holds[int(number)].held else "no"


def guard(number, *command):
    reply = holds[int(number)].guard(*command)
    return f"reply {reply.decode() if isinstance(reply, bytes) else reply}"


def forked(number):
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.write(writes, outcome_of(release, number).encode())
        os._exit(0)
    os.wait()
    return os.read(reads, 10_000).decode()


def outcome_of(work, *words):
    try:
        return work(*words)
    except Exception as error:
        return word_for(error)


def word_for(error):
    text = " ".join(str(error).split())
    if isinstance(error, redis.exceptions.LockNotOwnedError):
        return "lost"
    if isinstance(error, ModuleMissingError):
        return f"missing {text}"
    if isinstance(error, (DeadlockError, redis.ResponseError)):
        return f"refused {text}"
    if isinstance(error, redis.exceptions.LockError):
        return "busy"
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError)):
        return f"unknown {text}"
    if isinstance(error, (ValueError, TypeError)):
        return f"invalid {text}"
    return f"error {type(error).__name__}: {text}"


if __name__ == "__main__":
    for line in itertools.chain([f"connect {sys.argv[1]}"], sys.stdin):
        verb, *words = line.split()
        if verb == "connect":
            client = redis.Redis(port=int(words[0]), socket_timeout=5)
            print("ready", flush=True)
            continue
        if verb == "rest":
            client.close()
            continue
        work = {"acquire": acquire, "release": release, "renew": renew, "held": held, "guard": guard, "forked": forked,
                "losses": lambda number: str(losses[int(number)])}[verb]
        print(outcome_of(work, *words), flush=True)
