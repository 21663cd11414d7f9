"""README.md's Python program, exactly as it stands there, pasted twice. PORT says where a server with the module is."""

import functools
import os
import re
from pathlib import Path

import redis
import redis_lock_module  # noqa: F401  before the line below: it knows redis-py's own classes

db = redis.Redis(port=int(os.environ["PORT"]), decode_responses=True)
redis.Redis = functools.partial(redis.Redis, port=db.connection_pool.connection_kwargs["port"])

readme = (Path(__file__).parents[2] / "README.md").read_text()
key = re.search(r"LOCK\.ACQUIRE (\S+) ", readme.split("```\nann>")[1])[1]
[program] = re.findall(r"^```python\n(.*?)^```", readme, re.S | re.M)

for _ in range(2):
    names = {}
    with db.monitor() as monitor:
        exec(program, names)
        locks, words = [], [""]
        while words[0] != "LOCK.RELEASE":
            words = monitor.next_command()["command"].split(" ")
            locks += words[1:2] if words[0] == "LOCK.ACQUIRE" else []
    assert locks == [key], locks
    assert names["done"] == 1 and db.get("order:42:state") == "paid" and not db.exists(key)
print("README's Python program locks the key that README's transcript locks, and does its work")
