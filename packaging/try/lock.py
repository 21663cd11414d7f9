"""The installed package locks on the server at PORT."""

import os

import redis
from redis_lock_module import Lock

client = redis.Redis(host="127.0.0.1", port=int(os.environ["PORT"]))
with client.lock("tried:python", timeout=10, lock_class=Lock) as hold:
    assert client.execute_command("LOCK.INFO", "tried:python"), "not held"
    assert hold.fence > 0
    hold.guard("SET", "tried:price", 5)
assert client.execute_command("LOCK.INFO", "tried:python") is None, "not released"
print("  Python: locks")
