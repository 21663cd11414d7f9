"""Redlock over five servers that know nothing of each other. README.md says when not to; check.py runs it."""

import random
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry


class NotLocked(Exception):
    """No majority in time."""


class LockLost(Exception):
    """The hold ended before the work did: another owner may have worked beside us."""


class Redlock:
    def __init__(self, ports):
        # A server that is down must cost little time: ask it once (redis-py would try ten times more), and not for long.
        self.servers = [
            Redis(port=port, socket_timeout=0.25, socket_connect_timeout=0.25, retry=Retry(NoBackoff(), 0))
            for port in ports
        ]
        self.majority = len(self.servers) // 2 + 1
        # One thread for each server: so a RELEASE never overtakes an ACQUIRE that is not waited for any more.
        self.threads = [ThreadPoolExecutor(max_workers=1) for _ in self.servers]

    def ask(self, *command):
        """Asks all servers at once. One that is down, or refuses, has said nothing."""

        def one(server):
            try:
                return server.execute_command(*command)
            except RedisError:
                return None

        asked = [thread.submit(one, server) for thread, server in zip(self.threads, self.servers)]
        return [reply.result() for reply in asked]

    def granted(self, command, name, owner, ttl):
        """Says until when a majority has granted it, by this machine's clock; None: it has not."""
        asked = time.monotonic()
        yes = [answer for answer in self.ask(command, name, owner, ttl) if answer]
        # From the moment of asking, because that is when the first of them may have begun to count. The servers' clocks
        # may run a little faster than ours: one per cent, and 2 ms for the grain of their expiry.
        until = asked + ttl / 1000 * 0.99 - 0.002
        return until if len(yes) >= self.majority and time.monotonic() < until else None

    def acquire(self, name, owner, ttl, wait):
        """Tries, and tries again after a pause of random length.

        Never by BLOCK: of five lines two clients may stand first in some each, and wait for each other.
        """
        give_up = time.monotonic() + wait / 1000
        while True:
            until = self.granted("LOCK.ACQUIRE", name, owner, ttl)
            if until:
                return until
            # Those that did grant it, and those whose answer was lost, must not keep it.
            self.ask("LOCK.RELEASE", name, owner)
            if time.monotonic() > give_up:
                raise NotLocked(name)
            time.sleep(random.uniform(0.01, 0.1))

    def release(self, name, owner):
        return sum(answer == 1 for answer in self.ask("LOCK.RELEASE", name, owner)) >= self.majority

    @contextmanager
    def lock(self, name, ttl, wait=0):
        hold = Hold(self, name, ttl)
        try:
            hold.until = self.acquire(name, hold.owner, ttl, wait)
            yield hold
        finally:
            # The one way out, whatever has become of the request: some may have granted it already.
            released = self.release(name, hold.owner)
            if hold.until is not None and (not released or hold.time_left() < 0):
                raise LockLost(name)


class Hold:
    """Ask it before each thing that can't be undone: is there time left?"""

    def __init__(self, redlock, name, ttl):
        self.redlock, self.name, self.ttl = redlock, name, ttl
        self.owner = str(uuid.uuid4())
        self.until = None

    def time_left(self):
        return self.until - time.monotonic()

    def renew(self):
        until = self.redlock.granted("LOCK.RENEW", self.name, self.owner, self.ttl)
        if until is None or self.time_left() < 0:
            raise LockLost(self.name)
        self.until = until
