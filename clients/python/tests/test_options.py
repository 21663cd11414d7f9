"""Nonsense is refused before anything is sent; and help() describes this lock."""

import math
import pydoc

import pytest
import redis
import redis.asyncio
from redis_lock_module import Lock
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
    (TypeError, {option: value}) for option in ("shared", "require_module", "thread_local", "raise_on_release_error")
    for value in (1, "yes", None)
] + [
    (TypeError, {option: value}) for option in ("renew", "queue") for value in (1, "yes")
] + [
    (ValueError, {"renew_for": value}) for value in (0, -1, math.nan)
] + [
    (TypeError, {"renew_for": "60"}), (TypeError, {"on_lost": "call me"}), (ValueError, {"shared": True, "limit": 2}),
    (ValueError, {"name": []}), (TypeError, {"name": None}), (TypeError, {"name": 5}), (TypeError, {"name": ["a", 5]}),
]


@pytest.mark.parametrize("lock_class", [Lock, AsyncLock], ids=["thread", "task"])
@pytest.mark.parametrize("error, options", NONSENSE, ids=lambda value: str(value) if isinstance(value, dict) else "")
def test_an_option_that_is_nonsense_is_refused(lock_class, error, options):
    client = (redis.Redis if lock_class is Lock else redis.asyncio.Redis)(port=1)  # where no server answers
    with pytest.raises(error, match=next(iter(options)) if "name" not in options and len(options) == 1 else None):
        lock_class(client, **{"name": "market", "timeout": 10, **options})


REFUSED = [(ValueError, {"blocking_timeout": -1}), (TypeError, {"blocking_timeout": "5"}), (TypeError, {"blocking": 5}),
           (ValueError, {"token": ""}), (ValueError, {"token": "x" * 1025})]


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


@pytest.mark.parametrize("lock_class", [Lock, AsyncLock], ids=["thread", "task"])
def test_help_describes_this_lock(lock_class):
    text = pydoc.plain(pydoc.render_doc(lock_class))
    for option in ("timeout", "blocking_timeout", "sleep", "thread_local", "raise_on_release_error", "shared", "limit",
                   "renew", "renew_for", "on_lost", "queue", "require_module"):
        assert f"``{option}``" in text
    assert "With None it expires after" in text
    for name in dir(lock_class):
        if not name.lower().startswith(("_", "lua_", "do_")) and name != "ttl":
            assert getattr(lock_class, name).__doc__, name
