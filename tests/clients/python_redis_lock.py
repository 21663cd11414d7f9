"""python-redis-lock and this module on the same key: they share the lock, and its waiters have to be told by a list.

PORT says where the server is.
"""

import os
import threading
import time

from redis import Redis
from redis_lock import Lock, NotAcquired

KEY, SIGNAL = "lock:market", "lock-signal:market"


def connect():
    return Redis(port=int(os.environ["PORT"]), decode_responses=True, socket_timeout=30)


db = connect()


def ours(command, *args):
    return db.execute_command(f"LOCK.{command}", KEY, *args)


class Waiter(threading.Thread):
    """Waits in a thread, and notes when it was over."""

    def __init__(self, acquire):
        super().__init__(daemon=True)
        self.acquire, self.granted = acquire, None
        self.start()
        end = time.monotonic() + 10
        while not db.info("clients")["blocked_clients"]:
            assert time.monotonic() < end, "it does not wait"

    def run(self):
        self.granted = self.acquire()
        self.over = time.monotonic()

    def took_since(self, began):
        self.join(timeout=20)
        assert self.granted, "it was not granted"
        return self.over - began


def after_our_release(expire, told):
    """How long it waits for a lock that is free."""
    db.delete(KEY, SIGNAL)
    assert ours("ACQUIRE", "ann", 60_000)
    lock = Lock(connect(), "market", expire=expire)
    waiter = Waiter(lock.acquire)
    began = time.monotonic()
    assert ours("RELEASE", "ann") == 1
    if told:
        db.lpush(SIGNAL, 1)
        db.pexpire(SIGNAL, 1_000)
    took = waiter.took_since(began)
    lock.release()
    return took


db.delete(KEY, SIGNAL)
theirs = Lock(db, "market", expire=30)
assert theirs.acquire()
assert ours("ACQUIRE", "ann", 1_000) is None and ours("ACQUIRE", "ann", 1_000, "SHARED") is None
waiter = Waiter(lambda: connect().execute_command("LOCK.ACQUIRE", KEY, "ann", 60_000, "BLOCK", 10_000))
began = time.monotonic()
theirs.release()
assert waiter.took_since(began) < 2
assert not Lock(db, "market", expire=30).acquire(blocking=False)
for late in theirs.extend, theirs.release:
    try:
        late()
        raise AssertionError("it was not told that it had lost its lock")
    except NotAcquired:
        pass
assert ours("CHECK", "ann") > 0
print("each excludes the other, and its release is heard by ours")

took = after_our_release(expire=2, told=False)
assert took > 1, took
print(f"after ours it waits {took:.1f} s longer, with an expire of 2")
for expire in 30, None:
    took = after_our_release(expire=expire, told=True)
    assert took < 1, took
print("told by LPUSH it comes in at once")
