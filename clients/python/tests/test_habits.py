"""It is redis-py's Lock: what it is given, returns and raises."""

import functools
import threading
import time

import pytest
import redis
from conftest import eventually
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock as TheirLock
from redis_lock_module import DeadlockError, Lock


def waiting(client, watcher, **options):
    """A thread that waits for the lock. Calling it says what has come of it."""
    before, outcome = watcher.waiters(), []
    lock = Lock(client, "market", timeout=10, thread_local=False, **options)
    thread = threading.Thread(target=lambda: outcome.append(lock.acquire()), daemon=True)
    thread.start()
    watcher.wait_for_waiters(before + 1)

    def end():
        thread.join(timeout=20)
        assert outcome, "it still waits"
        return lock if outcome[0] else None

    return end


def test_a_lock_is_acquired_used_and_released_by_every_kind_of_client(any_client, watcher):
    lock = any_client.lock("market", timeout=10, lock_class=Lock)
    assert isinstance(lock, TheirLock) and not lock.locked() and not lock.owned() and lock.fence is None
    assert lock.acquire()
    assert lock.locked() and lock.owned() and lock.fence > 0
    assert watcher.db.get("market") == lock.local.token.decode()
    first = lock.fence
    assert lock.extend(10) and 19_000 < watcher.db.pttl("market") <= 20_000
    assert lock.extend(5, replace_ttl=True) and 4_000 < watcher.db.pttl("market") <= 5_000
    assert lock.reacquire() and 9_000 < watcher.db.pttl("market") <= 10_000
    other = any_client.lock("market", timeout=10, lock_class=Lock)
    assert not other.acquire(blocking=False) and not other.owned() and other.locked()
    assert not other.acquire(blocking_timeout=0.05)
    assert lock.guard("SET", "price", 5) is True and lock.guard("INCR", "price") == 6
    assert lock.guard("HSET", "goods", "sword", "bob") == 1
    assert any_client.hgetall("goods") == lock.guard("HGETALL", "goods")
    lock.release()
    assert lock.fence is None and lock.local.token is None and watcher.info() is None
    with other:
        assert other.fence > first
    assert watcher.info() is None


def test_a_patience_of_zero_tries_once(client, watcher):
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    watcher.command("CONFIG", "RESETSTAT")
    waits = watcher.db.info("lock")["lock_wait_timeouts_total"]
    assert not Lock(client, "market").acquire(blocking_timeout=0)
    assert not Lock(client, "market", blocking_timeout=0).acquire()
    assert not Lock(client, "market", blocking=False).acquire()
    assert not Lock(client, "market").acquire(blocking=False)
    assert watcher.calls("LOCK.ACQUIRE") == 4 and watcher.db.info("lock")["lock_wait_timeouts_total"] == waits


def test_each_call_of_a_decorated_function_holds_the_lock(client, watcher):
    @Lock(client, "market", timeout=10, blocking=False)
    def buy(what, price=5):
        """Buys."""
        return what, price, watcher.holders()

    assert buy.__name__ == "buy" and buy.__doc__ == "Buys."
    for _ in range(2):
        assert buy("sword", price=6) == ("sword", 6, 1) and watcher.info() is None
    with Lock(client, "market", timeout=10), pytest.raises(LockError):
        buy("sword")


def test_fractions_of_a_millisecond_are_rounded_up(client, watcher):
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    assert not Lock(client, "market").acquire(blocking_timeout=0.0001)  # a BLOCK 0 would wait for ever
    lock = Lock(client, "bazaar", timeout=0.0014)
    assert lock.acquire()
    lock = Lock(client, "fair", timeout=1.1)
    assert lock.acquire() and watcher.db.pttl("fair") <= 1_100


def test_a_wait_is_longer_than_the_read_timeout_of_the_client_for_that_call_alone(connect, watcher):
    client = connect(socket_timeout=0.5, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))
    watcher.command("LOCK.ACQUIRE", "market", "ann", 2_500)
    watcher.command("CONFIG", "RESETSTAT")
    for patience in (1.2, None):
        lock = Lock(client, "market", timeout=5)
        assert lock.acquire(blocking_timeout=patience) == (patience is None)
    # One command for each: none was tried before, and none stopped listening in between.
    assert watcher.calls("LOCK.ACQUIRE") == 2
    lock.release()
    for _ in range(3):
        with pytest.raises(redis.TimeoutError):
            client.blpop("nothing", 2)


def test_who_waits_is_served_in_order_at_once(client, watcher):
    lock = Lock(client, "market", timeout=10)
    assert lock.acquire()
    ends = [waiting(client, watcher) for _ in range(3)]
    fence = lock.fence
    lock.release()
    for end in ends:
        lock = end()
        assert lock.fence > fence
        fence = lock.fence
        lock.release()


def test_a_client_with_a_single_connection_waits_without_blocking_it(connect, watcher):
    client = connect(single_connection_client=True)
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    end = waiting(client, watcher, sleep=0.02)
    assert watcher.info()["waiters"][0]["place"] == 1
    began = time.monotonic()
    assert client.ping() and time.monotonic() - began < 5
    watcher.command("LOCK.RELEASE", "market", "ann")
    end().release()
    assert watcher.info() is None


def test_a_place_is_left_when_the_patience_is_over(client, watcher):
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    assert not Lock(client, "market", queue=True, sleep=0.01).acquire(blocking_timeout=0.1)
    assert watcher.waiters() == 0


def test_waiters_leave_the_holder_a_connection_to_release_by(watcher):
    pool = redis.BlockingConnectionPool(port=watcher.port, max_connections=4, timeout=20)
    client, done = redis.Redis(connection_pool=pool), []

    def work():
        with Lock(client, "market", timeout=20, sleep=0.01):
            done.append(client.incr("inside"))
            client.decr("inside")

    threads = [threading.Thread(target=work) for _ in range(12)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert done == [1] * 12 and time.monotonic() - began < 15
    pool.disconnect()


def test_a_wait_that_is_ended_by_others_goes_on(client, watcher):
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    end = waiting(client, watcher, sleep=0.01)
    for how in ("TIMEOUT", "ERROR"):
        waiter = watcher.info()["waiters"][0]["client"]
        calls = watcher.calls("LOCK.ACQUIRE")
        assert watcher.command("CLIENT", "UNBLOCK", waiter, how)
        eventually(lambda: watcher.calls("LOCK.ACQUIRE") >= calls + 2)
        watcher.wait_for_waiters(1)
    watcher.command("CONFIG", "SET", "lock.drain", "yes")
    watcher.wait_for_waiters(0)
    watcher.command("CONFIG", "SET", "lock.drain", "no")
    watcher.wait_for_waiters(1)
    watcher.command("LOCK.RELEASE", "market", "ann")
    end().release()


def test_a_wait_whose_connection_breaks_goes_on(client, watcher):
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    end = waiting(client, watcher)
    first = watcher.info()["waiters"][0]["client"]
    watcher.db.client_kill_filter(_id=first)
    eventually(lambda: watcher.waiters() and watcher.info()["waiters"][0]["client"] != first)
    watcher.command("LOCK.RELEASE", "market", "ann")
    end().release()


def test_what_is_lost_is_not_owned(client, watcher):
    lock = Lock(client, "market", timeout=0.05)
    for late in (lock.release, lock.reacquire, lambda: lock.extend(1), lambda: lock.extend(1, replace_ttl=True),
                 lambda: lock.guard("SET", "price", 5)):
        assert lock.acquire()
        eventually(lambda: not watcher.db.exists("market"))
        with pytest.raises(LockNotOwnedError):
            late()
        assert lock.lost.is_set()
    assert not watcher.db.exists("price")
    with pytest.raises(LockError):
        Lock(client, "market").guard("SET", "price", 5)


def test_an_interrupt_stays_one_whatever_has_become_of_the_lock(client, watcher):
    with pytest.raises(KeyboardInterrupt):
        with Lock(client, "market", timeout=10):
            watcher.command("LOCK.BREAK", "market")
            raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        with (lock := Lock(client, "market", timeout=10)):
            lock.release()
            raise KeyboardInterrupt


def test_a_guarded_command_that_the_server_does_not_know_says_nothing_of_the_module(client, watcher, caplog):
    with Lock(client, "market", timeout=10) as hold:
        with pytest.raises(redis.ResponseError, match="unknown command 'JSON.SET'"):
            hold.guard("JSON.SET", "price", "$", "5")
    with Lock(client, "market", timeout=10) as hold:
        assert hold.fence
    assert watcher.calls("LOCK.GUARD") == 1 and not caplog.records


def test_a_deadlock_is_refused_as_a_lock_error(client, watcher):
    first, second = Lock(client, "x", timeout=10), Lock(client, "y", timeout=10)
    assert first.acquire(token="ann") and second.acquire(token="ben")
    thread = threading.Thread(target=lambda: Lock(client, "x", timeout=10).acquire(token="ben"))
    thread.start()
    watcher.wait_for_waiters(1, "x")
    with pytest.raises(DeadlockError, match="DEADLOCK"):
        Lock(client, "y", timeout=10).acquire(token="ann")
    first.release()
    thread.join(timeout=20)
    assert not thread.is_alive()


def test_a_lock_without_a_timeout_is_held_until_it_is_released(client, watcher):
    class Short(Lock):
        ttl = 0.9

    lock = Short(client, "market")
    assert lock.acquire()
    fence, renewed = lock.fence, watcher.calls("LOCK.RENEW")
    eventually(lambda: watcher.calls("LOCK.RENEW") >= renewed + 6)
    assert lock.owned() and lock.fence == fence and not lock.lost.is_set()
    lock.release()
    calls = watcher.calls("LOCK.RENEW")
    time.sleep(0.9)
    assert watcher.calls("LOCK.RENEW") == calls and watcher.info() is None


def test_a_lock_whose_thread_has_ended_or_that_is_dropped_is_renewed_no_more(client, watcher):
    class Short(Lock):
        ttl = 0.9

    lock = Short(client, "market")
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
    eventually(lambda: watcher.info() is None, within=5)
    lock = Short(client, "bazaar")
    assert lock.acquire()
    del lock
    eventually(lambda: watcher.info("bazaar") is None, within=5)


def test_a_hold_that_is_lost_in_the_moment_when_lost_is_asked_for_keeps_no_processor_busy(client):
    hold = Lock(client, "market", timeout=0.1).hold()
    lost = hold.lost
    assert lost.wait(5)
    hold._watch()  # by a caller that has seen just before that it was held
    used = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - used < 0.25


def test_a_hold_that_another_thread_renews_while_its_alarm_is_set_has_it_at_the_new_time(client, watcher):
    hold, times = Lock(client, "market", timeout=5, renew=True).hold(), []
    call_at = hold._link.call_at

    def renewed_meanwhile(at, *what):
        if not times:
            hold._life.renewed(time.monotonic(), 10)
        times.append(at)
        return call_at(at, *what)

    hold._link.call_at = renewed_meanwhile
    hold._watch()
    assert len(times) == 2 and hold._alarm == times[1] > times[0] + 1
    hold.release()


def test_a_renewed_hold_ends_when_it_has_been_renewed_for_long_enough(client, watcher):
    told = threading.Event()
    lock = Lock(client, "market", timeout=0.9, renew=True, renew_for=2, on_lost=told.set)
    began = time.monotonic()
    assert lock.acquire()
    eventually(lambda: watcher.info() is None)
    assert 1.9 < time.monotonic() - began < 10
    assert told.wait(5) and lock.lost.wait(5)


def test_a_hold_whose_release_has_failed_is_renewed_no_more(connect, watcher):
    class Broken(redis.Connection):
        def send_command(self, *words, **options):
            if words[0] == "LOCK.RELEASE":
                raise redis.ConnectionError("the network is down")
            return super().send_command(*words, **options)

    pool = redis.ConnectionPool(connection_class=Broken, port=watcher.port)
    lock = Lock(redis.Redis(connection_pool=pool), "market", timeout=0.3, renew=True)
    assert lock.acquire()
    with pytest.raises(redis.ConnectionError):
        lock.release()
    assert lock.lost.wait(5)
    eventually(lambda: watcher.info() is None, within=5)
    lock.redis.close()


def test_an_extension_is_not_taken_back_by_a_renewal(client, watcher):
    lock = Lock(client, "market", timeout=0.9, renew=True)
    assert lock.acquire() and lock.extend(30)
    time.sleep(1)
    assert watcher.db.pttl("market") > 25_000
    lock.release()


@pytest.mark.parametrize("renew", [True, False])
def test_a_loss_is_told(client, watcher, renew):
    told = threading.Event()
    lock = Lock(client, "market", timeout=2, renew=renew, on_lost=told.set)
    assert lock.acquire() and not lock.lost.is_set()
    watcher.command("LOCK.BREAK", "market")
    assert lock.lost.wait(5) and told.wait(5)
    with pytest.raises(LockNotOwnedError):
        lock.release()


def test_readers_share_a_lock_and_a_limit_counts_them(client, watcher):
    readers = [Lock(client, "market", timeout=10, shared=True) for _ in range(3)]
    assert all(reader.acquire(blocking=False) for reader in readers)
    assert not Lock(client, "market", timeout=10).acquire(blocking=False)
    assert readers[0].locked() and readers[0].owned() and readers[0].extend(10) and readers[0].reacquire()
    for reader in readers:
        reader.release()
    permits = [Lock(client, "market", timeout=10, limit=2) for _ in range(3)]
    assert [permit.acquire(blocking=False) for permit in permits] == [True, True, False]
    permits[0].release()
    assert permits[2].acquire(blocking=False) and watcher.holders() == 2
    with pytest.raises(ValueError):
        Lock(client, "market", shared=True, limit=2)


@pytest.mark.parametrize("queue", [False, True])
def test_several_locks_are_held_together_or_not_at_all(any_client, watcher, queue):
    both = any_client.lock(["ann", b"ben"], timeout=10, lock_class=functools.partial(Lock, queue=queue, sleep=0.02))
    watcher.command("LOCK.ACQUIRE", "ben", "another owner", 1_000)
    assert not both.acquire(blocking=False) and not watcher.db.exists("ann")
    assert both.acquire() and both.owned() and both.locked()
    assert watcher.db.get("ann") == watcher.db.get("ben") == both.local.token.decode()
    assert both.extend(10) and watcher.db.pttl("ann") > 18_000 and watcher.db.pttl("ben") > 18_000
    assert both.reacquire() and watcher.db.pttl("ben") <= 10_000
    assert both.guard("SET", "price", 5) is True
    both.release()
    assert watcher.info("ann") is None and watcher.info("ben") is None
    assert both.acquire() and watcher.command("LOCK.BREAK", "ben") == 1 and not both.owned()
    with pytest.raises(LockNotOwnedError):
        both.release()
    assert watcher.info("ann") is None


def test_what_redis_py_holds_excludes_us_and_the_other_way_round(client, watcher):
    theirs, ours = client.lock("market", timeout=10), client.lock("market", timeout=10, lock_class=Lock)
    assert theirs.acquire() and not ours.acquire(blocking=False) and ours.locked()
    end = waiting(client, watcher)
    theirs.release()
    held = end()
    assert not theirs.acquire(blocking=False)
    held.release()
    assert theirs.acquire(blocking=False)
    theirs.release()


def test_a_token_that_somebody_hands_over_is_the_owner(client, watcher):
    theirs = client.lock("market", timeout=10)
    assert theirs.acquire()
    ours = Lock(client, "market", timeout=10)
    ours.local.token = theirs.local.token
    assert ours.owned() and ours.reacquire()
    ours.release()
    assert watcher.info() is None
