"""What must come of fenced.py: no holder that wakes up too late changes anything. With a PostgreSQL of its own, which
it starts and stops. The README's lines with SQLite are run too, and what docs/resource.md shows must be in fenced.py.
PORT says where a server with the module is (`make run` starts one).

apt install postgresql; python3 -m pip install redis 'psycopg[binary]'
"""

import glob
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psycopg
from redis import Redis

import fenced
from fenced import TABLES, TooLate, add, put_price, set_price, show, write_file

port = int(os.environ.get("PORT", 6379))
ROOT = Path(__file__).parent.parent.parent
LOCK = "market"
db = Redis(port=port, decode_responses=True)


def acquire(owner, ttl, *how):
    return db.execute_command("LOCK.ACQUIRE", LOCK, owner, ttl, *how)


def refused(act, *arguments):
    try:
        act(*arguments)
    except TooLate:
        return True
    return False


def two_holders():
    """ann sleeps past the end of her hold, and bob has the lock. Both have a number."""
    ann = acquire("ann", 20)
    bob = acquire("bob", 10_000, "BLOCK", 5_000)
    assert bob > ann > 0
    db.execute_command("LOCK.RELEASE", LOCK, "bob")
    return ann, bob


@contextmanager
def postgres():
    """A server on a socket in a folder of its own. It refuses to run as root."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb") or [shutil.which("initdb")]
    assert found[-1], "there is no PostgreSQL: apt install postgresql"
    programs, folder = Path(found[-1]).parent, tempfile.mkdtemp()
    as_user = {}
    if os.getuid() == 0:
        as_user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        shutil.chown(folder, "postgres", "postgres")
    try:
        subprocess.run([programs / "initdb", "-D", f"{folder}/data", "-U", "shop", "-A", "trust", "--no-sync",
                        "--locale=C", "-E", "UTF8"], check=True, stdout=subprocess.DEVNULL, cwd=folder, **as_user)
        server = subprocess.Popen([programs / "postgres", "-D", f"{folder}/data", "-k", folder, "-c",
                                   "listen_addresses=", "-c", "fsync=off", "-c", "log_min_messages=panic"],
                                  cwd=folder, **as_user)
        try:
            def connect():
                return psycopg.connect(host=folder, user="shop", dbname="postgres", autocommit=True)
            end = time.monotonic() + 20
            while True:
                try:
                    connect().close()
                    break
                except psycopg.OperationalError:
                    assert server.poll() is None and time.monotonic() < end, "PostgreSQL does not answer"
                    time.sleep(0.05)
            yield connect
        finally:
            server.send_signal(signal.SIGINT)  # closes all connections
            server.wait(timeout=20)
    finally:
        shutil.rmtree(folder)


def rows(connect):
    shop = connect()
    shop.execute(TABLES)
    shop.execute("INSERT INTO items VALUES ('sword', 3)")
    ann, bob = two_holders()
    set_price(shop, ann, "sword", 4)
    set_price(shop, bob, "sword", 5)
    assert refused(set_price, shop, ann, "sword", 6)
    set_price(shop, bob, "sword", 5)  # again, as after a lost reply
    assert shop.execute("SELECT price, fence FROM items").fetchone() == (5, bob)
    add(shop, bob, "shield", 2)
    add(shop, bob, "shield", 2)
    assert refused(add, shop, ann, "shield", 1) and refused(add, shop, ann, "sword", 1)
    assert shop.execute("SELECT name, price, fence FROM items ORDER BY name").fetchall() == [
        ("shield", 2, bob), ("sword", 5, bob)]
    print("one row: the late write was refused, and the same one twice was not")


def transactions(connect):
    """While bob's transaction is open, ann's waits for it, and is refused when it is over."""
    first, second = connect(), connect()
    ann, bob = two_holders()
    outcome = []

    def late():
        with second.transaction():
            show(second, ann)
            second.execute("UPDATE items SET price = 1")

    with first.transaction():
        show(first, bob)
        thread = threading.Thread(target=lambda: outcome.append(refused(late)))
        thread.start()
        with connect() as onlooker:
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            end = time.monotonic() + 10
            while onlooker.execute(waits).fetchone()[0] == 0:
                assert time.monotonic() < end, "ann's transaction does not wait"
                time.sleep(0.005)
        first.execute("UPDATE items SET price = 7")
    thread.join(10)
    assert outcome == [True]
    assert first.execute("SELECT DISTINCT price FROM items").fetchall() == [(7,)]
    print("several rows: the late transaction waited for the open one, and was refused")


def workers(connect):
    """Eight workers count, each reads first and writes later, and many sleep past the end of their holds between."""
    connect().execute("CREATE TABLE counts (checked BIGINT, unchecked BIGINT); INSERT INTO counts VALUES (0, 0)")
    stop_at, tried, done, late = time.monotonic() + 2, [], [], []

    def work():
        own, shop = Redis(port=port, decode_responses=True), connect()
        while time.monotonic() < stop_at:
            owner = str(uuid.uuid4())
            number = own.execute_command("LOCK.ACQUIRE", LOCK, owner, 20, "BLOCK", 5_000)
            try:
                with shop.transaction():
                    show(shop, number)
                    checked, unchecked = shop.execute("SELECT checked, unchecked FROM counts").fetchone()
                time.sleep(random.choice((0.001, 0.05)))
                shop.execute("UPDATE counts SET unchecked = %s", (unchecked + 1,))
                tried.append(number)
                with shop.transaction():
                    show(shop, number)
                    shop.execute("UPDATE counts SET checked = %s", (checked + 1,))
                done.append(number)
            except TooLate:
                late.append(number)
            finally:
                own.execute_command("LOCK.RELEASE", LOCK, owner)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    checked, unchecked = connect().execute("SELECT checked, unchecked FROM counts").fetchone()
    assert checked == len(done) > 0 and late, (checked, len(done), len(late))
    lost = len(tried) - unchecked
    assert lost > 0, "no worker was late: this shows nothing"
    print(f"{len(done)} counted and {len(late)} refused: none is missing. Unchecked, {lost} would be")


def files(folder):
    path = f"{folder}/prices.txt"
    ann, bob = two_holders()
    write_file(path, ann, "sword 4\n")
    write_file(path, bob, "sword 5\n")
    assert refused(write_file, path, ann, "sword 6\n")
    write_file(path, bob, "sword 5\n")
    assert Path(path).read_text() == "sword 5\n" and Path(path + ".fence").read_text() == str(bob)
    print("a file: the late write was refused")


class Item(BaseHTTPRequestHandler):
    """One object, written only if it is still what the writer has seen."""

    text, lock, in_between = b'{"price": 3, "fence": 0}', threading.Lock(), None

    def tag(self):
        return f'"{hashlib.sha256(Item.text).hexdigest()}"'

    def reply(self, code, text=b""):
        self.send_response(code)
        self.send_header("ETag", self.tag())
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        with Item.lock:
            self.reply(200, Item.text)
            if Item.in_between:
                Item.text, Item.in_between = Item.in_between, None

    def do_PUT(self):
        text = self.rfile.read(int(self.headers["Content-Length"]))
        with Item.lock:
            if self.headers["If-Match"] != self.tag():
                return self.reply(412)
            Item.text = text
            self.reply(200)

    def log_message(self, *_):
        pass


def objects():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Item)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/sword"
    ann, bob = two_holders()
    put_price(url, ann, 4)
    put_price(url, bob, 5)
    assert refused(put_price, url, ann, 6)
    # bob writes after ann has looked, and before she writes.
    Item.text = b'{"price": 4, "fence": %d}' % ann
    Item.in_between = b'{"price": 5, "fence": %d}' % bob
    assert refused(put_price, url, ann, 6)
    assert json.loads(Item.text) == {"price": 5, "fence": bob}
    server.shutdown()
    print("an object with If-Match: the late write was refused, also one that had looked in time")


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def the_readme():
    """Its lines in Python, as they stand there; then those of a holder that is late."""
    sys.path.insert(0, str(ROOT / "clients/python/src"))
    lines, = (block for block in blocks("README.md") if "sqlite3" in block)
    assert "Redis()" in lines
    makes_the_table, works = lines.replace("Redis()", f"Redis(port={port})").split("\nwith client.lock", 1)
    names = {}
    exec(makes_the_table, names)
    orders = names["db"]
    for fence in 0, 2**53:
        orders.execute("UPDATE orders SET state = 'open', fence = max(fence, ?)", (fence,))
        orders.commit()
        exec("with client.lock" + works, names)
        state, = orders.execute("SELECT state FROM orders").fetchone()
        assert (names["done"], state) == ((1, "paid") if fence == 0 else (0, "open"))
    assert db.get("order:42:state") == "paid" and not db.exists("order:42")
    db.delete("order:42:state")
    print("the README's lines: written, and refused after a later holder")


def the_page():
    source = Path(fenced.__file__).read_text()
    for block in blocks("docs/resource.md"):
        assert block.strip() in source, f"docs/resource.md shows what is not in fenced.py:\n{block}"


db.delete(LOCK, "price")
the_page()
with postgres() as connect:
    rows(connect)
    transactions(connect)
    workers(connect)
with tempfile.TemporaryDirectory() as folder:
    files(folder)
    objects()
    the_readme()
