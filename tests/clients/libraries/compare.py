"""SET NX PX, and the servers' own compare-and-delete: DELEX of Redis 8.4, DELIFEQ of Valkey 9.0. To extend it:
SET IFEQ, of Redis 8.4 and Valkey 8.1."""

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


def release():
    condition = ("IFEQ", token) if delete == "DELEX" else (token,)
    return db.execute_command(delete, name, *condition)


def extend(ttl):
    return db.execute_command("SET", name, token, "IFEQ", token, "PX", ttl)


answer_each(acquire=acquire, wait=acquire, extend=extend, release=release)
