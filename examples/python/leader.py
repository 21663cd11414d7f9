"""One of several candidates, of whom one leads at a time, with redis-py. check_leader.py runs many, and kills them.

    python3 leader.py NAME URL

acts on URL, a resource that refuses smaller numbers than it has seen, for as long as it leads, and says who leads.
PORT says where a server with the module is (`make run` starts one).
"""

import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

LEADER = "mailer:leader"
TTL = int(os.environ.get("TTL", 10_000))  # after so long another candidate leads in place of one that has died
BLOCK = 30_000  # how long to wait before a retry


def say(*words):
    print(" ".join(map(str, words)) + "\n", end="", flush=True)  # in one piece, because two threads say something


class Term:
    """The time for which a candidate leads. `number` goes with all that it does."""

    def __init__(self, port, name):
        self.owner = f"{name}/{uuid.uuid4()}"  # a fresh one for each term; followers read in it who leads
        self.number, self.over, self.until = None, threading.Event(), 0.0
        # A reply is needed in time or not at all, so the client need not retry by itself.
        self.db = Redis(port=port, socket_timeout=TTL / 3000, retry=Retry(NoBackoff(), 0))

    def begin(self, number):
        self.number = number
        self.renew()  # the grant may be older than its reply: from here on we know when it ends
        threading.Thread(target=self.keep, daemon=True).start()

    def renew(self):
        asked = time.monotonic()  # the hold ends TTL after the server has heard of it, so not before TTL from now
        try:
            if self.db.execute_command("LOCK.RENEW", LEADER, self.owner, TTL):
                self.until = asked + TTL / 1000
            else:
                self.over.set()
        except RedisError:
            pass  # there is time for another try, or lasts() says that there is none

    def keep(self):
        while not self.over.wait(TTL / 3000):
            self.renew()

    def lasts(self):
        # By our own clock too, because a server that we can't reach can't tell us that another candidate leads.
        return not self.over.is_set() and time.monotonic() < self.until

    def end(self):
        """The one way out, whatever has become of the request: the next one leads at once."""
        self.over.set()
        try:
            self.db.execute_command("LOCK.RELEASE", LEADER, self.owner)
        except RedisError:
            pass  # then the next one leads when the ttl is over


def campaign(port, name, lead):
    """Leads whenever it is this candidate's turn, until an exception stops it."""
    # Reads for longer than it waits. When the connection breaks redis-py retries: same owner, so same token.
    db = Redis(port=port, socket_timeout=BLOCK / 1000 + 5)
    while True:
        term = Term(port, name)
        try:
            while (number := ask(db, "LOCK.ACQUIRE", LEADER, term.owner, TTL, "BLOCK", BLOCK)) is None:
                pass  # no leader has resigned or died for so long
            term.begin(number)
            lead(term)
        finally:
            term.end()


def ask(db, *words):
    while True:
        try:
            return db.execute_command(*words)
        except RedisError as error:  # there is no server just now, or it has become a replica
            say("#", error)
            time.sleep(TTL / 10_000)


def follow(port, told):
    """Calls `told` with the owner that leads, or None, whenever it is another one."""
    leader = ""
    while True:
        # One connection that hears of every change of the key. In RESP2, because there a subscriber can hear of it.
        ear = Redis(port=port, protocol=2, max_connections=1, decode_responses=True, retry=Retry(NoBackoff(), 0))
        try:
            ear.execute_command("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", LEADER, "REDIRECT", ear.client_id())
            changes = ear.pubsub()
            changes.subscribe("__redis__:invalidate")
            db = Redis(port=port, decode_responses=True, socket_timeout=TTL / 1000)
            while True:
                now = db.get(LEADER)
                if now != leader:
                    told(leader := now)
                changes.get_message(timeout=TTL / 1000)  # and looks now and then all the same: this may be lost
        except RedisError:  # of the server too: a connection that breaks between these commands has another id next
            time.sleep(TTL / 10_000)
        finally:
            ear.close()


def act(url, number):
    """Does something that only the leader may do. The resource refuses a number below one that it has seen."""
    with urllib.request.urlopen(f"{url}&number={number}", data=b"", timeout=60):
        pass


def main():
    port, (name, url) = int(os.environ.get("PORT", 6379)), sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # so that it resigns

    def lead(term):
        say("leads", term.number)
        try:
            while term.lasts():
                act(f"{url}?name={name}", term.number)
                time.sleep(0.01)
            say("lost", term.number)
        except urllib.error.HTTPError:
            say("refused", term.number)

    def told(owner):
        say("follows", owner and owner.split("/")[0])

    threading.Thread(target=follow, args=(port, told), daemon=True).start()
    campaign(port, name, lead)


if __name__ == "__main__":
    main()
