"""How each language's program is started. A new language needs its program, a line here, and the table its exceptions."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
BUILT = Path(os.environ.get("BUILT", ROOT / "target/clients"))
PYTHON = {"PYTHONPATH": f"{BUILT / 'python'}:{ROOT / 'clients/python/src'}:{ROOT / 'clients/python/tests'}",
          "PYTHONDONTWRITEBYTECODE": "1"}


def package(file):
    return str(ROOT / "clients" / file)


def java(kind):
    return (["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-XX:SharedArchiveFile={BUILT}/java/classes.jsa",
             "-cp", f"{BUILT}/java/*", "redislock.tests.Promises", kind], {})


# The language, as the table's head has it, and its client: what to start, and its environment.
PROGRAMS = {
    ("Python", "redis-py"): ([sys.executable, package("python/tests/promises.py")], PYTHON),
    ("asyncio", "redis-py"): ([sys.executable, package("python/tests/promises_of_tasks.py")], PYTHON),
    ("Node", "ioredis"): (["node", package("node/tests/promises.js"), "ioredis 5"], {}),
    ("Node", "node-redis"): (["node", package("node/tests/promises.js"), "node-redis 5"], {}),
    ("Rust", "redis-rs"): ([str(BUILT / "rust/debug/examples/promises")], {}),
    ("PHP", "phpredis"): (["php", package("php/tests/promises.php"), "phpredis"], {}),
    ("PHP", "Predis"): (["php", package("php/tests/promises.php"), "Predis"], {}),
    ("Go", "go-redis"): ([str(BUILT / "promises-go"), "go-redis"], {}),
    ("Go", "redigo"): ([str(BUILT / "promises-go"), "redigo"], {}),
    ("Go", "rueidis"): ([str(BUILT / "promises-go"), "rueidis"], {}),
    ("Go", "polling"): ([str(BUILT / "promises-go"), "polling"], {}),
    ("Java", "Jedis"): java("JEDIS"),
    ("Java", "Lettuce"): java("LETTUCE"),
    ("Java", "polling"): java("POLLING"),
}

# Those take long to start: their programs serve one test after the other.
SLOW = {"Python", "asyncio", "Node", "Java"}

# Clients of other versions, which connect again and repeat in other ways: for lost replies and broken connections only.
OLD_PYTHON = {**PYTHON, "PYTHONPATH": PYTHON["PYTHONPATH"].replace(str(BUILT / "python"), str(BUILT / "python-7.4.1"))}
FOR_SOME = range(14, 23)
OTHERS = {
    ("Python", "redis-py 7"): ([sys.executable, package("python/tests/promises.py")], OLD_PYTHON),
    ("asyncio", "redis-py 7"): ([sys.executable, package("python/tests/promises_of_tasks.py")], OLD_PYTHON),
    **{("Node", client): (["node", package("node/tests/promises.js"), client], {})
       for client in ("ioredis 4", "ioredis 6", "node-redis 4", "node-redis 5, RESP3", "node-redis 6")},
}
