"""What must come of market.py. PORT says where a server with the module is (`make run` starts one).

python3 -m pip install redis
"""

import os
import random
import signal
import threading
import time

from market import BLOCK, LOCK, MARKET, LockLost, buy, connect, lock, sell, take_stock, write

port = int(os.environ.get("PORT", 6379))


def acquire(db, owner, ttl):
    return db.execute_command("LOCK.ACQUIRE", LOCK, owner, ttl)


def as_map(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def who_waits(db, other_than=None):
    while True:
        # Up to redis-py 7, which speaks RESP2, a map is a flat list: the names and the values by turns.
        info = as_map(db.execute_command("LOCK.INFO", LOCK))
        for waiter in map(as_map, info["waiters"]):
            if waiter["client"] != other_than:
                return waiter["client"]
        time.sleep(0.001)


db, operator = connect(port), connect(port)
db.delete(MARKET, LOCK)
db.hset(MARKET, mapping={"ann:funds": 0, "bob:funds": 100})

sell(db, "ann", "sword", 80)
assert buy(db, "bob", "sword") and not buy(db, "bob", "sword")
assert db.hmget(MARKET, "ann:funds", "bob:funds", "sword:owner") == ["80", "20", "bob"]
print("bob has bought the sword")

acquire(db, "a worker that dies", 5_500)
try:
    sell(db, "bob", "sword", 90)
    raise AssertionError("sold under another worker's lock")
except TimeoutError:
    print("tried, and did not wait")
began = time.monotonic()
assert not buy(db, "ann", "sword") and time.monotonic() - began > 5
print("waited for longer than the default read timeout")

take_stock(db, shelves=5)
print("renewed a long job")

try:
    with lock(db, 50) as owner:
        time.sleep(0.1)
        write(db, owner, {"bob:funds": 1_000_000})
    raise AssertionError("the loss was not noticed")
except LockLost as lost:
    assert "NOTOWNER" in str(lost.__context__) and db.hget(MARKET, "bob:funds") == "20"
print("a lost lock: the write was refused, and RELEASE said so")

fence = acquire(db, "ann", 5_000)
operator.client_kill_filter(_type="normal", skipme=True)
assert acquire(db, "ann", 5_000) == fence
print("connection broken while holding: the same number", fence)

thread = threading.Thread(target=take_stock, args=(db, 1))
thread.start()
waiter = who_waits(operator)
operator.client_kill_filter(_id=waiter)
assert who_waits(operator, other_than=waiter)
db.execute_command("LOCK.RELEASE", LOCK, "ann")
thread.join(timeout=BLOCK / 1000)
assert not thread.is_alive() and not db.exists(LOCK)
print("connection broken while waiting: asked again, and served")


class GivenUp(Exception):
    pass


def give_up(*_):
    raise GivenUp


# Another owner's hold ends at the very moment in which a worker gives up waiting.
signal.signal(signal.SIGALRM, give_up)
given_up = 0
for _ in range(1_000):
    moment = random.randint(1, 6)
    acquire(operator, "another owner", moment)
    try:
        signal.setitimer(signal.ITIMER_REAL, (moment + random.uniform(-0.5, 1.5)) / 1000)
        with lock(db, 60_000, "BLOCK", BLOCK):
            time.sleep(0.002)
            signal.setitimer(signal.ITIMER_REAL, 0)
    except GivenUp:
        given_up += 1
    end = time.monotonic() + 5
    while operator.execute_command("LOCK.INFO", LOCK) is not None:
        assert time.monotonic() < end, "a worker that gave up has left the lock behind"
assert given_up > 100, given_up
print(given_up, "of 1000 gave up about the moment of their grant, and left nothing behind")
