"""SET NX PX, and a compare-and-delete: the documented script (EVAL), or DELEX or DELIFEQ where the server has them.
To extend it: SET IFEQ, where the server has that."""

import sys
import time
import uuid

from redis import Redis
from speak import answer_each

db = Redis(port=int(sys.argv[1]))
delete = sys.argv[2]
name = token = None


def acquire(key, ttl, wait=0):
    global name, token
    name, token = key, uuid.uuid4().hex
    until = time.monotonic() + int(wait) / 1000
    while not db.set(key, token, nx=True, px=int(ttl)):
        if time.monotonic() > until:
            return None
        time.sleep(0.02)
    return token


def adopt(key, theirs):
    global name, token
    name, token = key, theirs


def release():
    if delete == "EVAL":
        return db.eval('return redis.call("GET", KEYS[1]) == ARGV[1] and redis.call("DEL", KEYS[1]) or 0', 1, name, token)
    condition = ("IFEQ", token) if delete == "DELEX" else (token,)
    return db.execute_command(delete, name, *condition)


def extend(ttl):
    return db.execute_command("SET", name, token, "IFEQ", token, "PX", ttl)


answer_each(acquire=acquire, wait=acquire, adopt=adopt, extend=extend, release=release)
