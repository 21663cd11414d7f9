"""redis-py's own Lock: SET NX PX, and a script that compares and deletes."""

import sys

from redis import Redis
from redis.exceptions import LockError
from speak import answer_each

db = Redis(port=int(sys.argv[1]))
lock = None


def acquire(key, ttl, wait=None):
    global lock
    lock = db.lock(key, timeout=int(ttl) / 1000, sleep=0.02)
    got = lock.acquire(blocking=wait is not None, blocking_timeout=wait and int(wait) / 1000)
    return lock.local.token.decode() if got else None


def adopt(key, token):
    global lock
    lock = db.lock(key, timeout=60)
    lock.local.token = token.encode()


def extend(ttl):
    return honest(lambda: lock.extend(int(ttl) / 1000, replace_ttl=True))


def release():
    return honest(lambda: lock.release() or True)


def honest(ask):
    try:
        return ask()
    except LockError:
        return False


answer_each(acquire=acquire, wait=acquire, adopt=adopt, extend=extend, release=release)
