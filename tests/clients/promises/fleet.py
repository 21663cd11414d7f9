"""Workers of all packages on one lock, while their connections break and the module comes and goes."""

import random
import threading
import time

from languages import PROGRAMS
from server import eventually
from trial import promise

TTL = 20_000  # in which a hold is left over whose release could not be sent
EACH = 4  # holds of each worker


class Work:
    """What the lock protects: one at a time, so that a number is read and written without a loss."""

    def __init__(self):
        self.inside, self.number, self.beside = 0, 0, []

    def do(self, who):
        self.inside += 1
        if self.inside != 1:
            self.beside.append(who)
        before = self.number
        time.sleep(0.002)
        self.number = before + 1
        self.inside -= 1


def work_on(worker, language, work, counts, over):
    """In a thread of its own, until all have held it often enough."""
    while not over.is_set():
        reply = worker.ask("acquire", "market", TTL, "wait=5000", within=90)
        if reply.kind == "hold":
            work.do(language)
            counts[language] += 1
            worker.ask("release", reply.hold(), within=90)


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
        server, work, over = trial.server(module), Work(), threading.Event()
        workers = {language: trial.worker(server, language) for language in PROGRAMS}
        counts, failures = dict.fromkeys(workers, 0), []

        def run(language, worker):
            try:
                work_on(worker, language, work, counts, over)
            except Exception as failure:
                failures.append((language, failure))

        threads = [threading.Thread(target=run, args=one) for one in workers.items()]
        for thread in threads:
            thread.start()
        turned = 0

        def all_have_held_it():
            nonlocal turned
            break_something(list(workers.values()))
            # Each turn is met by all of them.
            if turned < turns and min(counts.values()) >= EACH * (turned + 1) / (turns + 1):
                turn(server)
                turned += 1
            time.sleep(0.05)
            hits = sum(fault.hits for worker in workers.values() for fault in worker.proxy.faults)
            return failures or turned == turns and hits >= len(workers) and min(counts.values()) >= EACH

        try:
            eventually(all_have_held_it, lambda: f"starved: {counts}", within=150)
        finally:
            over.set()
            for thread in threads:
                thread.join(100)
        assert not failures, failures
        assert not work.beside and work.number == sum(counts.values()), (work.beside, work.number, counts)
