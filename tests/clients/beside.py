"""Other libraries' locks and this module's on the same key: each excludes the other, wakes it, and leaves it alone.

The libraries are the real ones, each in a process of its own (see libraries/). PORT says where the server is.
"""

import os
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

from redis import Redis, ResponseError

PORT = os.environ["PORT"]
# Ttls that surely do not run out, that are renewed, and that soon run out. (Laravel knows whole seconds only.)
LONG, MIDDLE, SHORT = 60_000, 20_000, 2_000
db = Redis(port=int(PORT), socket_timeout=60, decode_responses=True)


def lock(command, key, *args):
    return db.execute_command(f"LOCK.{command}", key, *args)


class Library:
    """Another library's lock, in a process that answers a line for each line."""

    def __init__(self, name, interpreter, program, *args, key="name", extends=True, asks_whose=True, says=True):
        self.name, self.key = name, key
        self.extends = extends  # it can renew
        self.asks_whose = asks_whose  # its release compares before it deletes
        self.says = says  # its release tells of a lock that was lost
        self.command = [interpreter, program, PORT, *args]
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.command, cwd=Path(__file__).parent / "libraries",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )

    def start_anew(self):
        """It may still be waiting for what a failed test asked."""
        self.process.kill()
        self.process.wait()
        self.start()

    def begin(self, *words):
        print(*words, file=self.process.stdin, flush=True)

    def end(self):
        answer = self.process.stdout.readline().strip()
        assert answer and not answer.startswith("error"), f"{self.name} answered {answer!r}"
        return {"yes": True, "no": False}.get(answer, answer)

    def ask(self, *words):
        self.begin(*words)
        return self.end()

    def acquire(self, ttl):
        return self.ask("acquire", self.key, ttl)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=10)


class Layout:
    """What a library stores, where the library itself can't be had."""

    def __init__(self, name):
        self.name = name

    def start_anew(self):
        pass

    close = start_anew


class Waiter(threading.Thread):
    """One that waits in the module's queue, by a connection of its own."""

    def __init__(self, key, owner):
        super().__init__(daemon=True)
        self.ask = ("LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 30_000)
        self.start()
        wait_until(lambda: any(waiter["owner"] == owner for waiter in lock("INFO", key)["waiters"]))

    def run(self):
        self.fence = Redis(port=int(PORT), socket_timeout=60).execute_command(*self.ask)
        self.served = time.monotonic()

    def served_after(self, began):
        self.join(timeout=20)
        assert not self.is_alive() and self.fence, "the waiter was not served"
        return self.served - began


def wait_until(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "this never came"
        time.sleep(0.002)


# What is true of every library whose lock is a string: the documented pattern, SET NX with an expiry.

def it_excludes_us(lib):
    token = lib.acquire(LONG)
    assert token and db.get(lib.key) == token
    assert lock("ACQUIRE", lib.key, "ann", LONG) is None
    assert lock("ACQUIRE", lib.key, "ann", LONG, "SHARED") is None
    assert lock("RELEASE", lib.key, "ann") == 0 and db.get(lib.key) == token


def we_exclude_it(lib):
    assert lock("ACQUIRE", lib.key, "ann", LONG)
    assert not lib.acquire(LONG)
    assert lock("CHECK", lib.key, "ann") > 0


def our_readers_exclude_it(lib):
    assert lock("ACQUIRE", lib.key, "ann", LONG, "SHARED")
    assert not lib.acquire(LONG)
    assert lock("CHECK", lib.key, "ann") > 0


def its_release_wakes_us(lib):
    assert lib.acquire(LONG)
    waiter = Waiter(lib.key, "ann")
    began = time.monotonic()
    assert lib.ask("release")
    took = waiter.served_after(began)
    assert took < 2, f"it took {took} s"
    return f"{took * 1000:.1f} ms"


def our_release_lets_it_in(lib):
    assert lock("ACQUIRE", lib.key, "ann", LONG)
    lib.begin("wait", lib.key, LONG, 20_000)
    time.sleep(0.2)
    assert lock("RELEASE", lib.key, "ann") == 1
    token = lib.end()
    assert token and db.get(lib.key) == token


def it_does_not_overtake_our_line(lib):
    assert lock("ACQUIRE", lib.key, "ann", LONG)
    lib.begin("wait", lib.key, LONG, 20_000)
    waiter = Waiter(lib.key, "ben")
    assert lock("RELEASE", lib.key, "ann") == 1
    waiter.served_after(time.monotonic())
    time.sleep(0.1)
    assert lock("CHECK", lib.key, "ben") > 0
    assert lock("RELEASE", lib.key, "ben") == 1
    assert lib.end()


def its_expiry_wakes_us(lib):
    began = time.monotonic()
    assert lib.acquire(SHORT)
    took = Waiter(lib.key, "ann").served_after(began)
    assert took > SHORT / 1000 - 0.01, f"served after {took} s"


def our_expiry_lets_it_in(lib):
    assert lock("ACQUIRE", lib.key, "ann", 200)
    lib.begin("wait", lib.key, LONG, 20_000)
    token = lib.end()
    assert token and db.get(lib.key) == token


def its_renewal_keeps_us_waiting(lib):
    if not lib.extends:
        return "cannot renew"
    assert lib.acquire(SHORT)
    waiter = Waiter(lib.key, "ann")
    for _ in range(5):
        time.sleep(SHORT * 0.22 / 1000)
        assert lib.ask("extend", SHORT), "it came too late"
        assert waiter.is_alive(), "the waiter was served"
    assert lib.ask("release")
    waiter.served_after(time.monotonic())


def we_renew_and_release_what_it_took(lib):
    token = lib.acquire(MIDDLE)
    assert lock("CHECK", lib.key, token) > 0
    assert lock("RENEW", lib.key, token, LONG) == 1 and db.pttl(lib.key) > MIDDLE
    fence = lock("ACQUIRE", lib.key, token, LONG)
    assert fence and lock("ACQUIRE", lib.key, token, LONG) == fence
    lock("GUARD", lib.key, token, "SET", "guarded", "yes")
    assert lock("RELEASE", lib.key, token) == 1 and not db.exists(lib.key)
    if lib.asks_whose and lib.says:
        assert not lib.ask("release")


def our_renewal_keeps_it_waiting(lib):
    assert lock("ACQUIRE", lib.key, "ann", SHORT)
    lib.begin("wait", lib.key, LONG, 20_000)
    for _ in range(5):
        time.sleep(SHORT * 0.22 / 1000)
        assert lock("RENEW", lib.key, "ann", SHORT) == 1
    assert lock("RELEASE", lib.key, "ann") == 1
    token = lib.end()
    assert token and db.get(lib.key) == token


def it_renews_and_releases_what_we_took(lib):
    assert lock("ACQUIRE", lib.key, "ann", MIDDLE)
    lib.ask("adopt", lib.key, "ann")
    if lib.extends:
        assert lib.ask("extend", LONG) and lock("CHECK", lib.key, "ann") > MIDDLE
    waiter = Waiter(lib.key, "ben")
    assert lib.ask("release")
    waiter.served_after(time.monotonic())
    assert lock("RELEASE", lib.key, "ann") == 0 and lock("CHECK", lib.key, "ben") > 0


def what_it_has_lost_stays_ours(lib):
    if not lib.asks_whose:
        return "its DEL asks for no owner: see below"
    assert lib.acquire(SHORT)
    waiter = Waiter(lib.key, "ann")
    waiter.served_after(time.monotonic())
    assert not lib.extends or not lib.ask("extend", LONG)
    assert lib.ask("release") != lib.says
    assert lock("CHECK", lib.key, "ann") > 0


def what_we_have_lost_stays_its(lib):
    assert lock("ACQUIRE", lib.key, "ann", 50)
    wait_until(lambda: not db.exists(lib.key))
    token = lib.acquire(LONG)
    assert token
    assert lock("RENEW", lib.key, "ann", LONG) == 0 and lock("CHECK", lib.key, "ann") is None
    refused(lambda: lock("GUARD", lib.key, "ann", "SET", "guarded", "no"), "NOTOWNER")
    assert lock("RELEASE", lib.key, "ann") == 0 and db.get(lib.key) == token
    assert lib.ask("release")


STRINGS = [
    it_excludes_us, we_exclude_it, our_readers_exclude_it, its_release_wakes_us, our_release_lets_it_in,
    it_does_not_overtake_our_line, its_expiry_wakes_us, our_expiry_lets_it_in, its_renewal_keeps_us_waiting,
    our_renewal_keeps_it_waiting, we_renew_and_release_what_it_took, it_renews_and_releases_what_we_took,
    what_it_has_lost_stays_ours, what_we_have_lost_stays_its,
]


# What is true of some.

def a_late_del_takes_our_lock_away_and_the_next_in_line_has_it(tutorial):
    assert tutorial.acquire(SHORT)
    Waiter("name", "ann").served_after(time.monotonic())
    next_in_line = Waiter("name", "ben")
    assert tutorial.ask("release")  # too late: this is ann's lock by now
    next_in_line.served_after(time.monotonic())
    refused(lambda: lock("GUARD", "name", "ann", "SET", "guarded", "no"), "NOTOWNER")
    assert lock("RELEASE", "name", "ann") == 0 and lock("CHECK", "name", "ben") > 0


def asking_about_a_shared_lock_is_wrongtype(redis_py):
    assert lock("ACQUIRE", "name", "ann", LONG, "SHARED")
    theirs = Redis(port=int(PORT)).lock("name", timeout=1)
    refused(theirs.locked, "WRONGTYPE")
    refused(theirs.owned, "WRONGTYPE")
    for ask in (theirs.reacquire, theirs.release):
        theirs.local.token = b"lost to the readers"
        refused(ask, "WRONGTYPE")
    assert lock("CHECK", "name", "ann") > 0


def wrongtype_for_each_of_our_commands(key):
    before, ends = db.execute_command("DUMP", key, NEVER_DECODE=[]), db.pexpiretime(key)
    for command in (
        ("ACQUIRE", "ann", LONG), ("ACQUIRE", "ann", LONG, "SHARED"), ("ACQUIRE", "ann", LONG, "BLOCK", 1),
        ("RENEW", "ann", LONG), ("CHECK", "ann"), ("GUARD", "ann", "SET", "guarded", "no"), ("RELEASE", "ann"),
        ("BREAK",), ("BREAK", "FORCE"),
    ):
        refused(lambda: lock(command[0], key, *command[1:]), "WRONGTYPE")
    assert db.execute_command("DUMP", key, NEVER_DECODE=[]) == before and db.pexpiretime(key) == ends


def its_sorted_set_is_left_alone(symfony):
    assert symfony.acquire(LONG)
    assert db.type("name") == "zset"
    wrongtype_for_each_of_our_commands("name")
    assert symfony.ask("release")
    assert lock("ACQUIRE", "name", "ann", LONG)


def we_exclude_its_writer_and_its_reader(symfony):
    assert lock("ACQUIRE", "name", "ann", LONG)
    assert not symfony.acquire(LONG)
    assert not symfony.ask("share", "name", LONG)
    assert lock("CHECK", "name", "ann") > 0


def our_readers_exclude_its_writer(symfony):
    assert lock("ACQUIRE", "name", "ann", LONG, "SHARED")
    assert not symfony.acquire(LONG)
    assert lock("INFO", "name")["count"] == 1


def its_reader_among_ours_is_told_an_error_and_counts_until_its_time_ends(symfony):
    assert lock("ACQUIRE", "name", "ann", LONG, "SHARED")
    symfony.begin("share", "name", SHORT)
    answer = symfony.process.stdout.readline()
    assert answer.startswith("error"), answer
    assert lock("RELEASE", "name", "ann") == 1
    assert lock("ACQUIRE", "name", "ben", LONG) is None
    wait_until(lambda: lock("ACQUIRE", "name", "ben", LONG))


def its_hash_is_left_alone(_):
    # As Redisson lays its lock out: a hash, and in it a count for each thread of each client.
    db.hset("name", "0123-4567:42", 1)
    db.pexpire("name", LONG)
    wrongtype_for_each_of_our_commands("name")
    assert db.hgetall("name") == {"0123-4567:42": "1"}


def we_exclude_it_by_an_error(_):
    # It looks first whether the key is there, and then for its field: on a string, or a sorted set, that is an error.
    for how in ((), ("SHARED",)):
        assert lock("ACQUIRE", "name", "ann", LONG, *how)
        assert db.exists("name")
        refused(lambda: db.hexists("name", "0123-4567:42"), "WRONGTYPE")
        assert lock("RELEASE", "name", "ann") == 1


def refused(ask, code):
    try:
        answer = ask()
    except ResponseError as error:
        assert code in str(error), f"{error} instead of {code}"
    else:
        raise AssertionError(f"{answer!r} instead of {code}")


def knows(*command):
    try:
        db.execute_command(*command)
    except ResponseError as error:
        return "unknown command" not in str(error) and "syntax error" not in str(error)
    return True


def tests():
    python, node, php = sys.executable, "node", "php"
    yield Library("redis-py Lock", python, "redis_py.py"), [*STRINGS, asking_about_a_shared_lock_is_wrongtype]
    yield Library("SET NX EX and DEL", python, "tutorial.py", extends=False, asks_whose=False), [
        *STRINGS, a_late_del_takes_our_lock_away_and_the_next_in_line_has_it]
    set_ifeq = knows("SET", "guarded", 1, "IFEQ", 1)
    yield Library(f"SET NX PX and a script{', SET IFEQ' * set_ifeq}", python, "compare.py", "EVAL", extends=set_ifeq), STRINGS
    for delete in ("DELEX", "DELIFEQ"):
        if knows(delete):
            yield Library(f"SET NX PX and {delete}", python, "compare.py", delete, extends=set_ifeq), STRINGS
    yield Library("redis-semaphore", node, "redis-semaphore.js", key="mutex:name", says=False), STRINGS
    yield Library("redlock (npm)", node, "redlock.js"), STRINGS
    yield Library("Laravel", php, "laravel.php", extends=False), STRINGS
    yield Library("Symfony", php, "symfony.php"), [
        its_sorted_set_is_left_alone, we_exclude_its_writer_and_its_reader, our_readers_exclude_its_writer,
        its_reader_among_ours_is_told_an_error_and_counts_until_its_time_ends]
    yield Layout("Redisson"), [its_hash_is_left_alone, we_exclude_it_by_an_error]


def main():
    failed = 0
    for library, claims in tests():
        for claim in claims:
            db.delete("name", "mutex:name", "guarded")
            try:
                note = claim(library)
                print(f"  ok  {library.name}: {claim.__name__.replace('_', ' ')}{f' ({note})' if note else ''}")
            except Exception:
                failed += 1
                print(f"FAIL  {library.name}: {claim.__name__.replace('_', ' ')}")
                traceback.print_exc(file=sys.stdout)
                library.start_anew()
        library.close()
    sys.exit(failed > 0)


main()
