"""What tutorials show: SET NX EX with a token of one's own, and a plain DEL that asks for no owner."""

import sys
import time
import uuid

from redis import Redis
from speak import answer_each

db = Redis(port=int(sys.argv[1]))
name = token = None


def acquire(key, ttl, wait=0):
    global name, token
    name, token = key, uuid.uuid4().hex
    until = time.monotonic() + int(wait) / 1000
    while not db.set(key, token, nx=True, ex=-(-int(ttl) // 1000)):
        if time.monotonic() > until:
            return None
        time.sleep(0.02)
    return token


def adopt(key, _):
    global name
    name = key


answer_each(acquire=acquire, wait=acquire, adopt=adopt, release=lambda: db.delete(name))
