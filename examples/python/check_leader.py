"""What must come of candidates of whom one leads: `check_leader.py python`, or `node`, or both in one fleet.

Leaders are killed (SIGKILL) and stopped, again and again. What they act on is a resource here, which refuses smaller
numbers than it has seen. PORT says where a server with the module is (`make run` starts one).

python3 -m pip install redis; npm install --prefix examples/node
"""

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from urllib.parse import parse_qs, urlparse

from redis import Redis

EXAMPLES = Path(__file__).parent.parent
PROGRAMS = {"python": ["python3", EXAMPLES / "python/leader.py"], "node": ["node", EXAMPLES / "node/leader.js"]}
CANDIDATES, ROUNDS, SLEEPS = 5, 8, 2
TTL = int(os.environ.get("TTL", 2_000))  # that of the candidates, in milliseconds
SLACK = 0.5  # seconds that it may take to tell, to ask and to act; where the machine is busy, not always
LEADER = "mailer:leader"
port = int(os.environ.get("PORT", 6379))
db = Redis(port=port, decode_responses=True, protocol=3)  # RESP3 has maps


def eventually(what, condition, within=20.0):
    end = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.002)
    return found


class Resource:
    """Does what it is asked for, unless it has seen a greater number."""

    def __init__(self):
        self.lock, self.greatest, self.done, self.refused = threading.Lock(), 0, [], []
        self.delays = None  # whose next request is to be on its way for a while
        self.on_its_way, self.arrives = threading.Event(), threading.Event()

    def act(self, name, number):
        if self.delays == name:
            self.delays = None
            self.on_its_way.set()
            self.arrives.wait()
        with self.lock:
            if number < self.greatest:
                self.refused.append((number, name))
                return False
            self.greatest = number
            self.done.append((number, name))
            return True

    def leader(self):
        """Who has acted last, and by which number."""
        with self.lock:
            return self.done[-1] if self.done else (0, None)


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        said = parse_qs(urlparse(self.path).query)
        accepted = resource.act(said["name"][0], int(said["number"][0]))
        try:
            self.send_response(200 if accepted else 409)
            self.send_header("Content-Length", "0")
            self.end_headers()
        except ConnectionError:
            pass  # it was killed meanwhile

    def log_message(self, *_):
        pass


class Candidate:
    def __init__(self, program):
        self.name = f"{program}-{len(everybody)}"
        self.waits_by = "QUEUE" if program == "node" else "BLOCK"
        everybody[self.name] = self
        self.follows, self.said = "", []
        self.process = subprocess.Popen(
            [*PROGRAMS[program], self.name, f"http://127.0.0.1:{server.server_port}/"],
            env={**os.environ, "PORT": str(port), "TTL": str(TTL)}, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            word, *rest = line.split()
            if word == "follows":
                self.follows = rest[0]
            self.said.append(line.strip())

    def lives(self):
        return self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()


def another():
    return Candidate(programs[len(everybody) % len(programs)])


def living():
    return [one for one in everybody.values() if one.lives()]


def all_follow(name, but=None):
    """After how many seconds all of them know who leads. On a machine that is too busy for a leader to renew in time,
    it may be another candidate by then."""
    began, others = time.monotonic(), [one for one in living() if one is not but]
    eventually(f"all follow {name}, or who has led since",
               lambda: all(one.follows in (name, resource.leader()[1]) for one in others))
    return time.monotonic() - began


def all_wait():
    """Every candidate leads, or stands in the queue."""
    def wait():
        info = db.execute_command("LOCK.INFO", LEADER)
        return info and info["count"] + info["queue"] == len(living())
    eventually("all wait", wait)


def next_leader(number):
    """Who acts next by a greater number, and after how many seconds."""
    began = time.monotonic()
    name = eventually("another candidate leads", lambda: (last := resource.leader())[0] > number and last[1])
    return name, time.monotonic() - began


def say(what, times):
    print(f"{what}: {len(times)} times, another candidate led after {min(times):.2f} to {max(times):.2f} s")


def kills_leaders():
    times, told = [], []
    for _ in range(ROUNDS):
        all_wait()
        number, name = resource.leader()
        everybody[name].signal(signal.SIGKILL)
        successor, took = next_leader(number)
        assert successor != name
        times.append(took)
        told.append(all_follow(successor))
        another()
    say(f"killed, with a ttl of {TTL / 1000} s", times)
    # A candidate that is not told finds out when it looks again, once in a ttl.
    print(f"from its first act until all knew of it: {median(told):.3f} s at the median, {max(told):.3f} at most")
    assert median(told) < TTL / 4_000, told
    assert median(times) < TTL / 1000 + SLACK, times


def kills_the_next_one_too():
    times = {"BLOCK": [], "QUEUE": []}
    for _ in range(SLEEPS):
        all_wait()
        number, name = resource.leader()
        first = db.execute_command("LOCK.INFO", LEADER)["waiters"][0]["owner"].split("/")[0]
        for one in first, name:
            everybody[one].signal(signal.SIGKILL)
        successor, took = next_leader(number)
        how = everybody[first].waits_by
        times[how].append(took)
        all_follow(successor)
        another()
        another()
    for how, times in times.items():
        if times:
            say(f"killed with the next one, which waited by {how}", times)
            # The death of one that keeps a place can't be seen: its turn comes, and is over when it isn't claimed.
            assert min(times) < TTL / 1000 * (2 if how == "QUEUE" else 1) + SLACK, times


def stops_leaders():
    """The leader sleeps for longer than its term, and what it has asked for is on its way for as long."""
    for _ in range(SLEEPS):
        all_wait()
        number, name = resource.leader()
        old, refused = everybody[name], len(resource.refused)
        resource.on_its_way.clear()
        resource.arrives.clear()
        resource.delays = name
        assert resource.on_its_way.wait(20)
        old.signal(signal.SIGSTOP)
        successor, _ = next_leader(number)
        resource.arrives.set()
        eventually("it is refused", lambda: len(resource.refused) > refused)
        old.signal(signal.SIGCONT)
        all_follow(successor)
        eventually("it stops", lambda: {f"refused {number}", f"lost {number}"}.intersection(old.said))
        all_wait()  # this one again too
        assert resource.refused[refused:] == [(number, name)]
    print(f"slept for longer than their terms: {len(resource.refused)} acts came too late, and were refused")


def resigns():
    times = []
    for _ in range(5):
        all_wait()
        number, name = resource.leader()
        everybody[name].signal(signal.SIGTERM)
        successor, took = next_leader(number)
        times.append(took)
        all_follow(successor, but=everybody[name])
        everybody[name].process.wait(timeout=20)
        another()
    say("resigned", times)
    # A leader that does not give up the lock keeps the others from it for two thirds of the ttl at least.
    assert median(times) < TTL / 2_000, times


def loses_connections():
    all_wait()
    number, name = resource.leader()
    before = len(resource.done)
    for kind in "pubsub", "normal":
        db.client_kill_filter(_type=kind, skipme=True)
    eventually("it goes on", lambda: len(resource.done) > before + TTL // 10)
    assert resource.leader() == (number, name), "it does not lead any more"
    all_wait()
    everybody[name].signal(signal.SIGKILL)
    all_follow(next_leader(number)[0])
    another()
    print("all connections were killed: it led on by the same number, and all heard of the next leader")


def one_led_at_a_time():
    terms = [resource.done[0]]
    for number, name in resource.done:
        if (number, name) != terms[-1]:
            terms.append((number, name))
    numbers = [number for number, _ in terms]
    assert numbers == sorted(set(numbers)), "two led by one number"
    # Who leads beside another acts by the smaller number.
    assert len(resource.refused) == SLEEPS, "two led at a time"
    print(f"{len(terms)} terms, {len(resource.done)} acts: never did two lead at a time")


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and leaves no candidate behind
programs, everybody, resource = sys.argv[1:], {}, Resource()
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
db.delete(LEADER)
try:
    for _ in range(CANDIDATES):
        another()
    all_follow(eventually("a candidate leads", lambda: resource.leader()[1]))
    kills_leaders()
    kills_the_next_one_too()
    stops_leaders()
    resigns()
    loses_connections()
    one_led_at_a_time()
    for one in living():
        one.signal(signal.SIGTERM)
    for one in living():
        one.process.wait(timeout=20)
    eventually("nothing is left", lambda: db.execute_command("LOCK.INFO", LEADER) is None)
finally:
    for one in living():
        one.signal(signal.SIGKILL)
