"""The program of docs/celery.md, as it stands there but for its port and its times, with workers that are killed and
stopped. PORT says where a server with the module is."""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import celery

PORT = os.environ["PORT"]
PAGE = (Path(__file__).parents[2] / "docs/celery.md").read_text()
assert f"Celery {celery.__version__} " in PAGE
[PROGRAM] = re.findall(r"^```python\n(.*?)^```", PAGE, re.S | re.M)
[UPDATE] = re.findall(r"^```sql\n(.*?)^```", PAGE, re.S | re.M)
FOLDER = Path(tempfile.mkdtemp(prefix="redis-lock-celery-"))
TIMES = {"timeout=30": "timeout=2", '"countdown": 2': '"countdown": 0.3', "6379": PORT}
LOOKS_OFTEN = {'"visibility_timeout": 3600': '"visibility_timeout": 1, "unacked_restore_interval": 1, '
                                             '"unacked_restore_throttle": 1'}
SHOP = """
import os, sqlite3, time

def do(statement, **names):
    with sqlite3.connect({database!r}, timeout=60) as shop:
        return shop.execute(statement, names)

def tell(what, customer):
    do("INSERT INTO events (what, customer, pid) VALUES (:what, :customer, :pid)", what=what, customer=customer,
       pid=os.getpid())

def read_orders(customer):
    orders = [price for price, in do("SELECT price FROM orders WHERE customer = :customer", customer=customer)]
    tell("began", customer)
    while not do("SELECT 1 FROM open WHERE customer = :customer", customer=customer).fetchone():
        time.sleep(0.01)
    return orders

def save(customer, balance, fence):
    saved = do({update!r}, customer=customer, balance=balance, fence=fence).rowcount
    tell("saved" if saved else "refused", customer)
"""


class Shop:
    """The database of the tasks: a task waits until its customer is `open`."""

    def __init__(self):
        self.database = sqlite3.connect(FOLDER / "shop.db", timeout=60, isolation_level=None)
        for table in ("orders (customer, price)", "open (customer)", "events (number INTEGER PRIMARY KEY, what, customer, pid)",
                      "balances (customer PRIMARY KEY, balance DEFAULT 0, fence DEFAULT 0)"):
            self.database.execute(f"CREATE TABLE {table}")
        self.database.executemany("INSERT INTO balances (customer) VALUES (?)", [(number,) for number in range(9)])
        (FOLDER / "shop.py").write_text(SHOP.format(database=str(FOLDER / "shop.db"), update=UPDATE))

    def order(self, customer, price):
        self.database.execute("INSERT INTO orders VALUES (?, ?)", (customer, price))

    def open(self, customer):
        self.database.execute("INSERT INTO open VALUES (?)", (customer,))

    def balance(self, customer):
        return self.database.execute("SELECT balance FROM balances WHERE customer = ?", (customer,)).fetchone()[0]

    def events(self, customer):
        rows = self.database.execute("SELECT what, pid FROM events WHERE customer = ? ORDER BY number", (customer,))
        return rows.fetchall()

    def said(self, customer):
        return [what for what, _ in self.events(customer)]


class Worker:
    def __init__(self, name, replaced):
        self.folder = FOLDER / name
        self.folder.mkdir()
        program = PROGRAM
        for here, there in replaced.items():
            assert here in program, here
            program = program.replace(here, there)
        (self.folder / "tasks.py").write_text(program)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool", "prefork", "--concurrency", "3", "--hostname",
             name, "--loglevel", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"],
            cwd=self.folder, env={**os.environ, "PYTHONPATH": f"{FOLDER}:{os.environ['PYTHONPATH']}"},
            stdout=open(self.folder / "log", "w"), stderr=subprocess.STDOUT, start_new_session=True)

    def log(self):
        return (self.folder / "log").read_text()

    def kill(self):
        """With its children."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def eventually(what, condition, within=60.0):
    end = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)
    return found


def one_at_a_time_for_each_customer(shop, tasks):
    for customer in (1, 1, 2):
        tasks.recount.delay(customer)
    eventually("both customers are worked for", lambda: shop.said(1) == shop.said(2) == ["began"])
    # The third process is free whenever the task that found the lock taken is put off.
    shop.open(0)
    for _ in range(2):
        tasks.recount_all.delay()
    eventually("another task runs meanwhile", lambda: shop.said(0) == ["began", "saved"] * 2)
    assert shop.said(1) == shop.said(2) == ["began"]
    for customer in (1, 2):
        shop.open(customer)
    eventually("all are done", lambda: shop.said(1) == ["began", "saved"] * 2 and shop.said(2) == ["began", "saved"])


def a_task_whose_process_is_killed_runs_again(shop, tasks):
    shop.order(3, 5)
    tasks.recount.delay(3)
    [(_, pid)] = eventually("it runs", lambda: shop.events(3))
    os.kill(pid, signal.SIGKILL)
    shop.open(3)
    eventually("it runs again", lambda: shop.said(3) == ["began", "began", "saved"])
    assert shop.balance(3) == 5


def a_worker_that_stood_still_writes_nothing_over(shop, tasks):
    shop.order(4, 5)
    tasks.recount.delay(4)
    [(_, stopped)] = eventually("it runs", lambda: shop.events(4))
    os.kill(stopped, signal.SIGSTOP)
    shop.order(4, 3)
    shop.open(4)
    tasks.recount.delay(4)
    eventually("the other has the lock", lambda: shop.said(4) == ["began", "began", "saved"])
    assert shop.balance(4) == 8
    os.kill(stopped, signal.SIGCONT)
    eventually("it is refused, and runs again", lambda: shop.said(4)[3:] == ["refused", "began", "saved"])
    assert shop.balance(4) == 8


def a_task_whose_worker_is_killed_is_delivered_again(shop, tasks, worker):
    shop.order(5, 5)
    tasks.recount.delay(5)
    eventually("it runs", lambda: shop.events(5))
    other = Worker("other", {**TIMES, **LOOKS_OFTEN})
    try:
        eventually("it is delivered while it runs", lambda: re.search(r"recount\[.*retry", other.log()))
        assert shop.said(5) == ["began"]
        worker.kill()
        eventually("another has the lock", lambda: shop.said(5) == ["began", "began"])
        shop.open(5)
        eventually("it is done", lambda: shop.balance(5) == 5)
    finally:
        other.kill()
        if sys.exc_info()[0]:
            print(other.log())


def main():
    shop = Shop()
    worker = Worker("one", TIMES)
    try:
        sys.path[:0] = [str(FOLDER), str(worker.folder)]
        import tasks

        eventually("the worker is ready", lambda: " ready." in worker.log())
        for test in (one_at_a_time_for_each_customer, a_task_whose_process_is_killed_runs_again,
                     a_worker_that_stood_still_writes_nothing_over):
            began = time.monotonic()
            test(shop, tasks)
            print(f"{test.__name__}: {time.monotonic() - began:.1f} s")
        a_task_whose_worker_is_killed_is_delivered_again(shop, tasks, worker)
    except BaseException:
        print(worker.log())
        raise
    finally:
        worker.kill()
        shutil.rmtree(FOLDER)
    print("docs/celery.md does what it says")


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
main()
