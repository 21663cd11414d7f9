"""A fleet changes over from SET NX to LOCK.ACQUIRE, client by client, and back; and what must be changed first.

What docs/migration.md says is tried here. PORT says where the server is; the last test unloads its module.
"""

import os
import random
import sys
import threading
import time
import traceback
import uuid
from contextlib import contextmanager

from redis import Redis, ResponseError

db = Redis(port=int(os.environ["PORT"]), socket_timeout=60, decode_responses=True)


class Worker(threading.Thread):
    """Adds to a number by reading it, thinking, and writing it: two at a time would lose an addition."""

    def __init__(self, way):
        super().__init__(daemon=True)
        self.db = Redis(port=int(os.environ["PORT"]), socket_timeout=60, decode_responses=True)
        self.way = self.now_by = way
        self.done, self.beside = {}, 0
        self.start()

    def change(self, way):
        """Returns when the worker has changed: the next step may depend on that."""
        self.way = way
        until = time.monotonic() + 30
        while self.now_by != way:
            assert time.monotonic() < until, "starved"
            time.sleep(0.001)
        time.sleep(0.1)

    def run(self):
        while way := self.way:
            self.now_by = way
            with getattr(self, way)():
                self.beside += self.db.incr("inside") - 1
                number = int(self.db.get("number") or 0)
                time.sleep(0.001)
                self.db.set("number", number + 1)
                self.db.decr("inside")
            self.done[way] = self.done.get(way, 0) + 1
            # One that is always in the queue would never let those in who poll.
            time.sleep(random.uniform(0.03, 0.1))
        self.now_by = None

    def the_old_way(self):
        return self.db.lock("fleet", timeout=10, sleep=0.005)

    def the_new_way(self):
        return Held(self.db)

    @contextmanager
    def another_storage(self):
        # A lock that is a hash, as Redisson's. (To delete it without asking will do: nothing expires here.)
        while not self.db.hsetnx("fleet:old", "holder", 1):
            time.sleep(0.005)
        try:
            yield
        finally:
            self.db.delete("fleet:old")

    @contextmanager
    def both_locks(self):
        with self.another_storage(), self.the_new_way():
            yield


class Held:
    """A hold of the lock by the module's commands."""

    def __init__(self, db):
        self.db, self.owner = db, str(uuid.uuid4())

    def __enter__(self):
        assert self.db.execute_command("LOCK.ACQUIRE", "fleet", self.owner, 10_000, "BLOCK", 30_000)

    def __exit__(self, *_):
        assert self.db.execute_command("LOCK.RELEASE", "fleet", self.owner) == 1


def a_fleet_changes_over_client_by_client_and_back():
    return fleet("the_old_way", "the_new_way", "the_old_way")


def from_another_storage_it_goes_by_way_of_both_locks_and_back():
    return fleet("another_storage", "both_locks", "the_new_way", "both_locks", "another_storage")


def fleet(*ways):
    """Five workers change from way to way, one after the other, all at work."""
    workers = [Worker(ways[0]) for _ in range(5)]
    for way in ways:
        for worker in workers:
            worker.change(way)
    for worker in workers:
        worker.change(None)
    for worker in workers:
        worker.join(timeout=30)
        assert not worker.is_alive() and worker.beside == 0
    done = {way: sum(worker.done.get(way, 0) for worker in workers) for way in ways}
    assert int(db.get("number")) == sum(done.values()) and all(done.values())
    return ", ".join(f"{count} by {way.replace('_', ' ')}" for way, count in done.items()) + ", none beside another"


def a_constant_as_the_owner_lets_everybody_in():
    assert db.set("fleet", "1", nx=True, px=10_000)  # a client of the old kind works
    first, second = (db.execute_command("LOCK.ACQUIRE", "fleet", "1", 10_000) for _ in range(2))
    assert first and first == second  # and both of these are told that they hold it too
    assert db.execute_command("LOCK.ACQUIRE", "fleet", str(uuid.uuid4()), 10_000) is None


def a_time_as_the_value_overwrites_our_hold():
    # SETNX with the time at which it ends, and GETSET by the client that finds that time to be over. An owner is no time: to
    # such a client it is 0, long over.
    assert db.execute_command("LOCK.ACQUIRE", "fleet", "ann", 10_000)
    found = db.get("fleet")
    assert not found.isdigit() and db.getset("fleet", int(time.time()) + 10) == found
    try:
        db.execute_command("LOCK.GUARD", "fleet", "ann", "SET", "number", 1)
        raise AssertionError("written without the lock")
    except ResponseError as refused:
        assert str(refused).startswith("NOTOWNER")
    assert db.execute_command("LOCK.RELEASE", "fleet", "ann") == 0
    # And what it leaves has no expiry: no other ever comes in, until a client deletes it.
    assert db.ttl("fleet") == -1 and db.execute_command("LOCK.ACQUIRE", "fleet", "ben", 10_000, "BLOCK", 50) is None


def a_hold_outlives_the_module():
    assert db.execute_command("LOCK.ACQUIRE", "fleet", "ann", 60_000)
    db.execute_command("CONFIG", "SET", "lock.drain", "yes")
    with db.pipeline() as transaction:
        transaction.execute_command("CLIENT", "KILL", "TYPE", "normal")
        transaction.execute_command("MODULE", "UNLOAD", "lock")
        transaction.execute()
    assert 0 < db.pttl("fleet") <= 60_000
    theirs = db.lock("fleet", timeout=10)
    assert not theirs.acquire(blocking=False)
    theirs.local.token = b"ann"
    theirs.release()
    assert theirs.acquire(blocking=False)


def main():
    failed = 0
    for claim in (
        a_fleet_changes_over_client_by_client_and_back, from_another_storage_it_goes_by_way_of_both_locks_and_back,
        a_constant_as_the_owner_lets_everybody_in, a_time_as_the_value_overwrites_our_hold,
        a_hold_outlives_the_module,
    ):
        db.delete("fleet", "fleet:old", "number", "inside")
        try:
            note = claim()
            print(f"  ok  {claim.__name__.replace('_', ' ')}{f' ({note})' if note else ''}")
        except Exception:
            failed += 1
            print(f"FAIL  {claim.__name__.replace('_', ' ')}")
            traceback.print_exc(file=sys.stdout)
    sys.exit(failed > 0)


main()
