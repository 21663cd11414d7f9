"""Nonsense is refused before anything is sent; and help() describes this lock."""

import math
import os
import pydoc
import re
import socket
import subprocess
import sys
import textwrap

import pytest
import redis
import redis.asyncio
from redis_lock_module import Lock, _errors
from redis_lock_module.asyncio import Lock as AsyncLock

NONSENSE = [
    (ValueError, {"timeout": value}) for value in (-1, 0, 0.0001, -math.inf, math.inf, math.nan, 1e18)
] + [
    (TypeError, {"timeout": value}) for value in ("10", True, b"1", [1], object())
] + [
    (ValueError, {"sleep": value}) for value in (-0.1, math.inf, math.nan)
] + [
    (TypeError, {"sleep": value}) for value in (None, "0.1", True)
] + [
    (ValueError, {"blocking_timeout": value}) for value in (-1, -0.001, -math.inf, math.nan, 1e18)
] + [
    (TypeError, {"blocking_timeout": value}) for value in ("5", True, False)
] + [
    (TypeError, {"blocking": value}) for value in (5, 0, None, "no")
] + [
    (ValueError, {"limit": value}) for value in (0, -1, 2**63)
] + [
    (TypeError, {"limit": value}) for value in (1.5, "3", True)
] + [
    (ValueError, {"max_queue": value}) for value in (-1, 2**63)
] + [
    (TypeError, {"max_queue": value}) for value in (1.5, "3", True)
] + [
    (error, {option: value}) for option, too_small in (("replicas", -1), ("per", 0))
    for error, value in ((ValueError, too_small), (ValueError, 2**63), (TypeError, 1.5), (TypeError, "3"), (TypeError, True))
] + [
    (ValueError, {"fair": value}) for value in ("", "ann:ben", "x" * 513)
] + [
    (TypeError, {"fair": value}) for value in (5, True, b"ann")
] + [
    (ValueError, {"fair": "ann"}), (ValueError, {"per": 2}), (ValueError, {"fair": "ann", "limit": 2, "name": ["a", "b"]}),
    (ValueError, {"fair": "x" * 12, "limit": 2, "owner_prefix": "x" * 975}),
] + [
    (TypeError, {option: value}) for option in ("shared", "require_module", "thread_local", "raise_on_release_error")
    for value in (1, "yes", None)
] + [
    (TypeError, {option: value}) for option in ("renew", "queue") for value in (1, "yes")
] + [
    (ValueError, {"renew_for": value}) for value in (0, -1, math.nan)
] + [
    (TypeError, {"renew_for": "60"}), (TypeError, {"on_lost": "call me"}), (ValueError, {"shared": True, "limit": 2}),
    (ValueError, {"name": []}), (TypeError, {"name": None}), (TypeError, {"name": 5}), (TypeError, {"name": ["a", 5]}),
] + [
    (ValueError, {"name": value}) for value in ("", b"", ["market", ""])
] + [
    (TypeError, {"name": value})
    for value in ({"market": 1}, {"market", "bazaar"}, iter(["market"]), bytearray(b"market"))
] + [
    (ValueError, {"owner_prefix": value}) for value in ("", "x" * 988)
] + [
    (TypeError, {"owner_prefix": value}) for value in (5, True, b"web-3")
]


def the_option(value):
    """The same in each of pytest-xdist's workers, as what is printed of a set or an object is not."""
    return " ".join(f"{option} {type(of).__name__}" for option, of in value.items()) if isinstance(value, dict) else ""


@pytest.mark.parametrize("lock_class", [Lock, AsyncLock], ids=["thread", "task"])
@pytest.mark.parametrize("error, options", NONSENSE, ids=the_option)
def test_an_option_that_is_nonsense_is_refused(lock_class, error, options):
    client = (redis.Redis if lock_class is Lock else redis.asyncio.Redis)(port=1)  # where no server answers
    with pytest.raises(error, match=next(iter(options)) if len(options) == 1 else None):
        lock_class(client, **{"name": "market", "timeout": 10, **options})


REFUSED = [(ValueError, {"blocking_timeout": -1}), (TypeError, {"blocking_timeout": "5"}), (TypeError, {"blocking": 5}),
           (ValueError, {"token": ""}), (ValueError, {"token": "x" * 1025}), (ValueError, {"token": "*"}),
           (ValueError, {"token": b"@lock:shared"})]


@pytest.mark.parametrize("error, options", REFUSED, ids=str)
async def test_an_option_of_acquire_that_is_nonsense_is_refused(client, aconnect, watcher, error, options):
    for acquire in (Lock(client, "market").acquire, Lock(client, "market").hold):
        with pytest.raises(error):
            acquire(**options)
    lock = AsyncLock(aconnect(), "market")
    with pytest.raises(error):
        await lock.acquire(**options)
    with pytest.raises(error):
        await lock.hold(**options)
    with pytest.raises(ValueError):
        Lock(client, "market").acquire(sleep=-1)
    assert watcher.calls("LOCK.ACQUIRE") == 0


@pytest.mark.parametrize("lock_class, wrong, words", [
    (Lock, redis.asyncio.Redis(port=1), "redis_lock_module.asyncio"),
    (AsyncLock, redis.Redis(port=1), "redis_lock_module.Lock"),
    (Lock, None, "client of redis-py"), (AsyncLock, None, "client of redis-py"), (Lock, "here", "client of redis-py"),
])
def test_the_wrong_kind_of_client_is_refused_in_words(lock_class, wrong, words):
    with pytest.raises(TypeError, match=words):
        lock_class(wrong, "market")


@pytest.mark.skipif(redis.__version__ < "8", reason="redis-py has fewer types before")
def test_the_types_refuse_the_wrong_kind_of_client_too(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import redis, redis.asyncio
        from redis_lock_module import Lock, _errors
        from redis_lock_module.asyncio import Lock as AsyncLock
        Lock(redis.Redis(), "market"); AsyncLock(redis.asyncio.Redis(), "market")
        Lock(redis.asyncio.Redis(), "market")
        AsyncLock(redis.Redis(), "market")
        Lock(None, "market")
    """))
    found = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", tmp_path, program], capture_output=True,
                           text=True)
    wrong = [line.split(":")[1] for line in found.stdout.splitlines() if "[arg-type]" in line or "[type-var]" in line]
    assert wrong == ["6", "7", "8"], found.stdout


def test_an_owner_says_which_process_it_is(client, watcher):
    def owner(**options):
        with Lock(client, "market", timeout=10, **options):
            return watcher.db.get("market")

    uuid = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    mine = re.escape(f"{socket.gethostname()[:64]}:{os.getpid()}:")
    assert re.fullmatch(mine + uuid, owner()) and owner() != owner()
    assert re.fullmatch("web-3:" + uuid, owner(owner_prefix="web-3"))
    assert len(owner(owner_prefix="x" * 987)) == 1024


async def test_an_owner_says_which_process_a_task_is_of(aconnect, watcher):
    lock = AsyncLock(aconnect(), "market", timeout=10)
    async with lock:
        assert watcher.db.get("market").startswith(f"{socket.gethostname()[:64]}:{os.getpid()}:")
    async with AsyncLock(aconnect(), "market", timeout=10, owner_prefix="web-3"):
        assert watcher.db.get("market").startswith("web-3:")


def test_an_owner_of_a_child_says_which_child_it_is(client, watcher):
    lock = Lock(client, "market", timeout=10)
    child = os.fork()
    if not child:
        os._exit(0 if lock.acquire() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert watcher.db.get("market").split(":")[1] == str(child)


def test_what_is_set_later_is_looked_at_too(client, watcher):
    lock = Lock(client, "market", timeout=10)
    lock.timeout = -1
    with pytest.raises(ValueError, match="timeout"):
        lock.acquire()
    lock.timeout = 10
    assert lock.acquire()
    calls = watcher.db.info("stats")["total_commands_processed"]
    for nonsense in (0, -5, math.nan):
        for extend in (lambda: lock.extend(nonsense), lambda: lock.extend(nonsense, replace_ttl=True)):
            with pytest.raises(ValueError):
                extend()
    with pytest.raises(TypeError):
        lock.extend("5")
    with pytest.raises(TypeError):
        lock.guard()
    assert watcher.db.info("stats")["total_commands_processed"] == calls + 1  # the INFO itself
    lock.release()


def test_an_infinite_patience_waits_for_ever(client):
    lock = Lock(client, "market", timeout=10, blocking_timeout=math.inf)
    assert lock.acquire()
    lock.release()


@pytest.mark.parametrize("rest", ["", ' (lock.max-place-ttl): the time after QUEUE is "60001"'], ids=["1.0", "now"])
def test_the_longest_time_of_a_place_is_read_from_the_servers_error(rest):
    error = redis.ResponseError("lease must be 1 to 1500 milliseconds" + rest)
    assert _errors.greatest_lease(error) == 1500


@pytest.mark.parametrize("lock_class", [Lock, AsyncLock], ids=["thread", "task"])
def test_help_describes_this_lock(lock_class):
    text = pydoc.plain(pydoc.render_doc(lock_class))
    for option in ("timeout", "blocking_timeout", "sleep", "thread_local", "raise_on_release_error", "shared", "limit",
                   "renew", "renew_for", "on_lost", "queue", "require_module", "max_queue", "owner_prefix", "replicas", "fair", "per"):
        assert f"``{option}``" in text
    assert "With None it expires after" in text
    for name in dir(lock_class):
        if not name.lower().startswith(("_", "lua_", "do_")) and name != "ttl":
            assert getattr(lock_class, name).__doc__, name
