"""Workers of all packages on one lock, while their connections break, the module comes and goes, and a master dies."""

import random
import threading
import time
from collections import Counter
from contextlib import contextmanager

from languages import PROGRAMS
from program import Cannot
from server import eventually
from trial import promise

TTL = 20_000  # in which a hold is left over whose release could not be sent
EACH = 4  # holds of each worker


class Work:
    """What the lock protects: one at a time, so that a number is read and written without a loss."""

    def __init__(self):
        self.inside, self.number, self.beside = 0, 0, []
        self.goes_on = threading.Event()  # else no work that has begun ends
        self.goes_on.set()

    def do(self, who):
        self.inside += 1
        if self.inside != 1:
            self.beside.append(who)
        before = self.number
        time.sleep(0.002)
        assert self.goes_on.wait(0.75 * TTL / 1000), "a failover took so long that a hold may be over"
        self.number = before + 1
        self.inside -= 1


class Fleet:
    """Each worker in a thread of its own, until all have held the lock often enough."""

    def __init__(self, trial, server, *options):
        self.workers = {language: trial.worker(server, language) for language in PROGRAMS}
        self.work, self.counts, self.failures = Work(), dict.fromkeys(self.workers, 0), []
        self.options, self.over = options, threading.Event()
        self.begins = threading.Event()  # else none asks for the lock
        self.begins.set()
        self.asking, self.denied = set(), Counter()
        self.counted = []  # the increments in the server that a replica has

    def run(self, language, worker):
        try:
            while not self.over.is_set():
                self.asking.add(language)
                if not self.begins.is_set():
                    self.asking.discard(language)
                    self.begins.wait(0.1)
                    continue
                reply = worker.ask("acquire", "market", TTL, *self.options, within=90)
                if reply.kind != "hold":
                    self.denied[language] += 1
                else:
                    self.work.do(language)
                    self.counts[language] += 1
                    if "replicas=1" in self.options:
                        self.count(worker, reply.hold())
                    worker.ask("release", reply.hold(), within=90)
        except Exception as failure:
            self.failures.append((language, failure))

    def count(self, worker, hold):
        """The replica that has acknowledged the renewal has what came before it."""
        try:
            if worker.ask("guard", hold, "INCR", "count").kind == "reply" and worker.ask("renew", hold, TTL) == "ok":
                self.counted.append(hold)
        except Cannot:
            pass

    def all_have_held_it(self, times):
        return self.failures or min(self.counts.values()) >= times

    @contextmanager
    def at_work(self):
        threads = [threading.Thread(target=self.run, args=one) for one in self.workers.items()]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.over.set()
            self.work.goes_on.set()
            for thread in threads:
                thread.join(100)
        work, counts = self.work, self.counts
        assert not self.failures, self.failures
        assert not work.beside and work.number == sum(counts.values()), (work.beside, work.number, counts)


def break_something(workers):
    proxy = random.choice(workers).proxy
    names = ("LOCK.ACQUIRE", "LOCK.RELEASE", "SET", "EVAL", "DELEX", "DELIFEQ")
    random.choice([proxy.break_connections, lambda: proxy.lose_reply_to(*names), lambda: proxy.lose_request(*names),
                   lambda: threading.Timer(random.random(), proxy.delay(*names).arrive.set).start()])()


def turn(server):
    """Unloads the module, or loads it."""
    server.unload() if server.with_module else server.load()


@promise(42)
def no_two_hold_a_lock_at_the_same_time(trial):
    for module, turns in ((True, 0), (False, 0), (True, 4)):
        server = trial.server(module)
        fleet = Fleet(trial, server, "wait=5000")
        workers, turned = list(fleet.workers.values()), 0

        def are_done():
            nonlocal turned
            break_something(workers)
            # Each turn is met by all of them.
            if turned < turns and fleet.all_have_held_it(EACH * (turned + 1) / (turns + 1)):
                turn(server)
                turned += 1
            time.sleep(0.05)
            hits = sum(fault.hits for worker in workers for fault in worker.proxy.faults)
            return fleet.failures or turned == turns and hits >= len(workers) and fleet.all_have_held_it(EACH)

        with fleet.at_work():
            eventually(are_done, lambda: f"starved: {fleet.counts}", within=150)


def promote(replica, fleet):
    """While one of them holds the lock."""
    fleet.work.goes_on.clear()
    eventually(lambda: fleet.work.inside, "none holds it")
    replica.say("REPLICAOF", "NO", "ONE")


def promote_early(replica, fleet):
    """While none holds the lock, and the master goes on, alone: there none gets it any more."""
    fleet.begins.clear()
    eventually(lambda: not fleet.asking and replica.is_free(), lambda: f"still at it: {fleet.asking}")
    replica.say("REPLICAOF", "NO", "ONE")
    fleet.work.goes_on.clear()
    fleet.denied.clear()
    options, fleet.options = fleet.options, ["replicas=1"]
    fleet.begins.set()
    eventually(lambda: fleet.work.inside or all(fleet.denied[one] >= 3 for one in fleet.workers),
               lambda: f"no replies: {fleet.denied}")
    fleet.options = options


def fail_over(trial, fleet, master, replica, promote):
    """What is held meanwhile stays held until others have asked the new master for it."""
    promote(replica, fleet)
    master.kill()
    following = trial.server(master.with_module, replica)
    command = "lock.acquire" if master.with_module else "set"
    before = replica.calls(command)
    for worker in fleet.workers.values():
        worker.proxy.server = replica.port
    eventually(lambda: replica.calls(command) >= before + 3, "none asks the new master")
    fleet.work.goes_on.set()
    return replica, following


@promise(42)
def nor_does_a_failover_let_two_hold_it(trial):
    for module in (True, False):
        master = trial.server(module)
        replica = trial.server(module, master)
        fleet = Fleet(trial, master, "wait=1000", "replicas=1")
        with fleet.at_work():
            for times, way in enumerate((promote, promote_early), 1):
                eventually(lambda: fleet.all_have_held_it(times), lambda: f"starved: {fleet.counts}", within=150)
                master, replica = fail_over(trial, fleet, master, replica, way)
            eventually(lambda: fleet.all_have_held_it(times + 1), lambda: f"starved: {fleet.counts}", within=150)
        assert int(master.say("GET", "count")) >= len(fleet.counted) > 0, (master.say("GET", "count"), fleet.counted)
