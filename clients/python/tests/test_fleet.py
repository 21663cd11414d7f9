"""A fleet changes over as docs/migration.md says: redis-py's own Lock and this one, on one key, in many processes."""

import multiprocessing
import time

import redis
from conftest import PORT
from redis_lock_module import Lock

SECONDS = 2


def work(lock_class, results):
    """Adds to a number by reading it, thinking, and writing it: two at a time would lose an addition."""
    client, done, beside = redis.Redis(port=PORT, socket_timeout=20), 0, 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with client.lock("market", timeout=10, sleep=0.002, lock_class=lock_class):
            beside += client.incr("inside") - 1
            number = int(client.get("number") or 0)
            time.sleep(0.001)
            client.set("number", number + 1)
            client.decr("inside")
        done += 1
        # A queue that is never empty would never let those in who poll.
        time.sleep(0.01)
    results.put((lock_class is Lock, done, beside))


def test_half_a_fleet_is_on_the_old_lock_and_no_two_work_at_a_time(watcher):
    spawn = multiprocessing.get_context("spawn")
    results = spawn.Queue()
    fleet = [spawn.Process(target=work, args=(lock_class, results), daemon=True) for lock_class in [None, Lock] * 3]
    for process in fleet:
        process.start()
    reports = [results.get(timeout=60) for _ in fleet]
    for process in fleet:
        process.join(timeout=20)
    assert not any(beside for _, _, beside in reports)
    assert int(watcher.db.get("number")) == sum(done for _, done, _ in reports)
    for ours in (False, True):
        assert all(done for is_ours, done, _ in reports if is_ours == ours)
