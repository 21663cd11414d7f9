"""It is redis-py's asyncio Lock: what it is given, returns and raises."""

import asyncio
import functools
import gc
import time

import pytest
import redis
from conftest import eventually
from redis.asyncio.lock import Lock as TheirLock
from redis.exceptions import LockError, LockNotOwnedError
from redis_lock_module.asyncio import DeadlockError, Lock


async def aeventually(condition, within=20.0, what="this never came"):
    end = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < end, what
        await asyncio.sleep(0.002)
    return found


async def waiting(client, watcher, **options):
    """A task that waits for the lock. Awaiting it says what has come of it."""
    before = watcher.waiters()

    async def wait():
        lock = Lock(client, "market", timeout=10, **options)
        return lock if await lock.acquire() else None

    task = asyncio.create_task(wait())
    await aeventually(lambda: watcher.waiters() == before + 1)
    return task


async def test_a_lock_is_acquired_used_and_released_by_every_kind_of_client(any_async_client, watcher):
    client = any_async_client
    lock = client.lock("market", timeout=10, lock_class=Lock)
    assert isinstance(lock, TheirLock) and not await lock.locked() and not await lock.owned() and lock.fence is None
    assert await lock.acquire()
    assert await lock.locked() and await lock.owned() and lock.fence > 0
    assert watcher.db.get("market") == lock.local.token.decode()
    first = lock.fence
    assert await lock.extend(10) and 19_000 < watcher.db.pttl("market") <= 20_000
    assert await lock.extend(5, replace_ttl=True) and 4_000 < watcher.db.pttl("market") <= 5_000
    assert await lock.reacquire() and 9_000 < watcher.db.pttl("market") <= 10_000
    other = client.lock("market", timeout=10, lock_class=Lock)
    assert not await other.acquire(blocking=False) and not await other.owned() and await other.locked()
    assert not await other.acquire(blocking_timeout=0.05)
    assert await lock.guard("SET", "price", 5) is True and await lock.guard("INCR", "price") == 6
    assert await lock.guard("HSET", "goods", "sword", "bob") == 1
    assert await client.hgetall("goods") == await lock.guard("HGETALL", "goods")
    await lock.release()
    assert lock.fence is None and lock.local.token is None and watcher.info() is None
    async with other:
        assert other.fence > first
    assert watcher.info() is None


async def test_a_patience_of_zero_tries_once(aconnect, watcher):
    client = aconnect()
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    watcher.command("CONFIG", "RESETSTAT")
    waits = watcher.db.info("lock")["lock_wait_timeouts_total"]
    assert not await Lock(client, "market").acquire(blocking_timeout=0)
    assert not await Lock(client, "market", blocking_timeout=0).acquire()
    assert not await Lock(client, "market", blocking=False).acquire()
    assert watcher.calls("LOCK.ACQUIRE") == 3 and watcher.db.info("lock")["lock_wait_timeouts_total"] == waits
    assert not await Lock(client, "market").acquire(blocking_timeout=0.0001)  # a BLOCK 0 would wait for ever
    with pytest.raises(LockError):
        async with Lock(client, "market", blocking_timeout=0.01):
            pass


async def test_each_call_of_a_decorated_function_holds_the_lock(aconnect, watcher):
    client = aconnect()

    @Lock(client, "market", timeout=10, blocking=False)
    async def buy(what, price=5):
        return what, price, watcher.holders()

    for _ in range(2):
        assert await buy("sword", price=6) == ("sword", 6, 1) and watcher.info() is None
    async with Lock(client, "market", timeout=10):
        with pytest.raises(LockError):
            await buy("sword")


async def test_a_wait_is_longer_than_the_read_timeout_of_the_client_for_that_call_alone(aconnect, watcher):
    client = aconnect(socket_timeout=0.5, retry=redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0))
    watcher.command("LOCK.ACQUIRE", "market", "ann", 2_500)
    watcher.command("CONFIG", "RESETSTAT")
    for patience in (1.2, None):
        lock = Lock(client, "market", timeout=5)
        assert await lock.acquire(blocking_timeout=patience) == (patience is None)
    assert watcher.calls("LOCK.ACQUIRE") == 2  # one command for each
    await lock.release()
    for _ in range(3):
        with pytest.raises(redis.TimeoutError):
            await client.blpop("nothing", 2)


async def test_who_waits_is_served_in_order_at_once(aconnect, watcher):
    client = aconnect()
    lock = Lock(client, "market", timeout=10)
    assert await lock.acquire()
    waiters = [await waiting(client, watcher) for _ in range(3)]
    for waiter in waiters:
        fence = lock.fence
        await lock.release()
        lock = await waiter
        assert lock.fence > fence
    await lock.release()


async def test_a_client_with_a_single_connection_waits_without_blocking_it(aconnect, watcher):
    client = aconnect(single_connection_client=True)
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    waiters = [await waiting(client, watcher, sleep=0.02) for _ in range(3)]
    assert [waiter["place"] for waiter in watcher.info()["waiters"]] == [1, 2, 3]
    began = time.monotonic()
    assert await client.ping() and time.monotonic() - began < 5
    watcher.command("LOCK.RELEASE", "market", "ann")
    for waiter in waiters:
        await (await waiter).release()
    assert watcher.info() is None


async def test_waiters_leave_the_holder_a_connection_to_release_by(watcher):
    pool = redis.asyncio.BlockingConnectionPool(port=watcher.port, max_connections=4, timeout=20)
    client, inside = redis.asyncio.Redis(connection_pool=pool), []

    async def work():
        async with Lock(client, "market", timeout=20, sleep=0.01):
            inside.append(await client.incr("inside"))
            await client.decr("inside")

    await asyncio.wait_for(asyncio.gather(*(work() for _ in range(12))), 15)
    assert inside == [1] * 12
    await pool.disconnect()


async def test_a_wait_that_is_ended_by_others_goes_on(aconnect, watcher):
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    waiter = await waiting(aconnect(), watcher, sleep=0.01)
    for how in ("TIMEOUT", "ERROR"):
        calls = watcher.calls("LOCK.ACQUIRE")
        assert watcher.command("CLIENT", "UNBLOCK", watcher.info()["waiters"][0]["client"], how)
        await aeventually(lambda: watcher.calls("LOCK.ACQUIRE") >= calls + 2)
        await aeventually(lambda: watcher.waiters() == 1)
    first = watcher.info()["waiters"][0]["client"]
    watcher.db.client_kill_filter(_id=first)
    await aeventually(lambda: watcher.waiters() and watcher.info()["waiters"][0]["client"] != first)
    watcher.command("LOCK.RELEASE", "market", "ann")
    await (await waiter).release()


async def test_what_is_lost_is_not_owned(aconnect, watcher):
    lock = Lock(aconnect(), "market", timeout=0.05)
    for late in (lock.release, lock.reacquire, lambda: lock.extend(1), lambda: lock.guard("SET", "price", 5)):
        assert await lock.acquire()
        eventually(lambda: not watcher.db.exists("market"))
        with pytest.raises(LockNotOwnedError):
            await late()
        assert lock.lost.is_set()
    assert not watcher.db.exists("price")


async def test_a_deadlock_is_refused_as_a_lock_error(aconnect, watcher):
    client = aconnect()
    first, second = Lock(client, "x", timeout=10), Lock(client, "y", timeout=10)
    assert await first.acquire(token="ann") and await second.acquire(token="ben")
    waits = asyncio.create_task(Lock(client, "x", timeout=10).acquire(token="ben"))
    await aeventually(lambda: watcher.waiters("x") == 1)
    with pytest.raises(DeadlockError, match="DEADLOCK"):
        await Lock(client, "y", timeout=10).acquire(token="ann")
    await first.release()
    assert await waits


async def test_a_lock_without_a_timeout_is_held_until_it_is_released_or_dropped(aconnect, watcher):
    class Short(Lock):
        ttl = 0.9

    async def hold_and_drop():
        lock = Short(aconnect(), "market")
        assert await lock.acquire()
        await aeventually(lambda: watcher.calls("LOCK.RENEW") >= 6)
        assert await lock.owned() and not lock.lost.is_set()
        await lock.release()
        assert watcher.info() is None
        assert await lock.acquire()

    await hold_and_drop()
    gc.collect()  # redis-py's frames may keep it on Python 3.13
    await aeventually(lambda: watcher.info() is None, within=5)


async def test_a_renewed_hold_ends_when_it_has_been_renewed_for_long_enough(aconnect, watcher):
    began, told = time.monotonic(), []
    with pytest.raises(LockNotOwnedError):
        async with Lock(aconnect(), "market", timeout=0.9, renew=True, renew_for=2, on_lost=lambda: told.append(1)):
            await asyncio.sleep(20)
    assert 1.9 < time.monotonic() - began < 10 and told == [1]


async def test_the_work_is_cancelled_when_a_renewed_hold_is_lost(aconnect, watcher):
    lock, client = Lock(aconnect(), "market", timeout=2, renew=True, raise_on_release_error=False), aconnect()
    with pytest.raises(LockNotOwnedError):
        async with lock:
            watcher.command("LOCK.BREAK", "market")
            await asyncio.sleep(20)
    assert lock.lost.is_set() and await client.ping()
    await asyncio.sleep(0)  # it is not cancelled any more


async def test_the_work_that_somebody_else_cancels_stays_cancelled(aconnect, watcher):
    lock = Lock(aconnect(), "market", timeout=2, renew=True)
    begun = asyncio.Event()

    async def work():
        async with lock:
            watcher.command("LOCK.BREAK", "market")
            begun.set()
            await asyncio.sleep(20)

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    task = asyncio.create_task(work())
    lock.on_lost = task.cancel  # both at once
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_is_not_renewed_is_told_and_goes_on(aconnect, watcher):
    lock = Lock(aconnect(), "market", timeout=0.1, raise_on_release_error=False)
    async with lock:
        await asyncio.wait_for(lock.lost.wait(), 5)
        await asyncio.sleep(0.01)


async def test_readers_share_a_lock_and_a_limit_counts_them(aconnect, watcher):
    client = aconnect()
    readers = [Lock(client, "market", timeout=10, shared=True) for _ in range(3)]
    assert [await reader.acquire(blocking=False) for reader in readers] == [True] * 3
    assert not await Lock(client, "market", timeout=10).acquire(blocking=False)
    for reader in readers:
        await reader.release()
    permits = [Lock(client, "market", timeout=10, limit=2) for _ in range(3)]
    assert [await permit.acquire(blocking=False) for permit in permits] == [True, True, False]


@pytest.mark.parametrize("queue", [False, True])
async def test_several_locks_are_held_together_or_not_at_all(any_async_client, watcher, queue):
    both = any_async_client.lock(["ann", b"ben"], timeout=10,
                                 lock_class=functools.partial(Lock, queue=queue, sleep=0.02))
    watcher.command("LOCK.ACQUIRE", "ben", "another owner", 1_000)
    assert not await both.acquire(blocking=False) and not watcher.db.exists("ann")
    assert await both.acquire() and await both.owned() and await both.locked()
    assert await both.extend(10) and watcher.db.pttl("ann") > 18_000 and watcher.db.pttl("ben") > 18_000
    assert await both.reacquire() and await both.guard("SET", "price", 5) is True
    await both.release()
    assert watcher.info("ann") is None and watcher.info("ben") is None
