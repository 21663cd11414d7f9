"""A hold is an object: the caller that was granted one keeps it, whatever others do by the same lock object."""

import asyncio
import contextlib
import os
import subprocess
import sys
import textwrap
import threading
import time
import traceback

import pytest
from conftest import PORT, eventually
from redis.exceptions import LockError, LockNotOwnedError, ResponseError
from redis_lock_module import Hold, Lock
from redis_lock_module._server import Room
from redis_lock_module.asyncio import Hold as AsyncHold
from redis_lock_module.asyncio import Lock as AsyncLock


class Inside:
    """Counts who is inside, and how many there were at most."""

    def __init__(self):
        self.now = self.most = 0

    def __enter__(self):
        self.now += 1
        self.most = max(self.most, self.now)

    def __exit__(self, *_):
        self.now -= 1


async def test_one_semaphore_object_lets_no_more_tasks_in_than_its_limit(aconnect, watcher):
    lock, inside = AsyncLock(aconnect(), "market", timeout=10, limit=2), Inside()

    async def work(number):
        for _ in range(5):
            async with lock as hold:
                with inside:
                    await asyncio.sleep(0.001 * (number % 3))
                    assert await hold.owned() and hold.fence

    await asyncio.wait_for(asyncio.gather(*(work(number) for number in range(9))), 30)
    assert inside.most == 2 and watcher.info() is None


async def test_a_writer_is_never_beside_a_reader_of_a_shared_object(aconnect, watcher):
    client, readers, writers = aconnect(), Inside(), Inside()
    shared, beside = AsyncLock(client, "market", timeout=10, shared=True), []

    async def read(number):
        for _ in range(5):
            async with shared:
                with readers:
                    await asyncio.sleep(0.001 * (number % 4))
                    beside.append(writers.now)

    async def write():
        for _ in range(10):
            async with AsyncLock(client, "market", timeout=10):
                with writers:
                    beside.append(readers.now)

    await asyncio.wait_for(asyncio.gather(*(read(number) for number in range(6)), write()), 30)
    assert not any(beside) and readers.most > 1 and watcher.info() is None


@pytest.mark.parametrize("options", [{}, {"limit": 2}, {"shared": True}], ids=["exclusive", "limit", "shared"])
def test_threads_that_share_an_object_release_each_its_own_hold(connect, watcher, options):
    lock = Lock(connect(max_connections=100), "market", timeout=10, thread_local=False, **options)
    inside, errors, fences = Inside(), [], []

    def work(number):
        try:
            for _ in range(8):
                with lock as hold:
                    with inside:
                        time.sleep(0.001 * (number % 3))
                        assert hold.owned()
                        fences.append(hold.fence)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and len(set(fences)) == 32 and watcher.info() is None
    assert inside.most <= {"exclusive": 1, "limit": 2}.get(next(iter(options), "exclusive"), 4)


def test_a_hold_of_another_thread_is_released_by_whoever_means_it(client, watcher):
    lock = Lock(client, "market", timeout=10, thread_local=False, limit=3)
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
    lock.release()  # the only one, and its thread has ended
    assert watcher.info() is None
    holds, leave, there = [], threading.Event(), threading.Barrier(3)

    def hold():
        assert lock.acquire()
        there.wait(20)
        leave.wait(20)
        lock.release()

    threads = [threading.Thread(target=hold) for _ in range(2)]
    for thread in threads:
        thread.start()
    there.wait(20)
    with pytest.raises(LockError, match="Several hold it"):
        lock.release()
    assert watcher.holders() == 2 and not holds
    leave.set()
    for thread in threads:
        thread.join(20)
    assert watcher.info() is None


def test_holds_of_one_object_are_independent(client, watcher):
    lock = Lock(client, "market", timeout=10, limit=3)
    first, second = lock.hold(), lock.hold()
    assert isinstance(first, Hold) and first.fence < second.fence and first.token != second.token
    assert lock.fence is None and watcher.holders() == 2
    first.release()
    assert first.fence is None and second.owned() and not first.owned()
    with pytest.raises(LockError):
        first.release()
    second.renew(20)
    second.extend(10)
    assert second.guard("SET", "price", 5) is True
    with lock.hold(blocking_timeout=0) as third:
        assert third.owned() and watcher.holders() == 2
    second.release()
    assert watcher.info() is None
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    with pytest.raises(LockError, match="Unable to acquire"):
        lock.hold(blocking=False)


def test_a_renewal_of_a_released_hold_is_refused_and_is_no_loss(client, watcher):
    losses = []
    hold = Lock(client, "market", timeout=10, on_lost=lambda: losses.append(True)).hold()
    hold.release()
    with pytest.raises(LockNotOwnedError, match="Cannot renew .* was released"):
        hold.renew()
    assert not hold.lost.is_set() and not losses


async def test_a_renewal_that_a_release_overtakes_is_refused_and_is_no_loss(aconnect, watcher, monkeypatch):
    losses, heard = [], asyncio.Event()
    hold = await AsyncLock(aconnect(), "market", timeout=10, on_lost=lambda: losses.append(True)).hold()
    release = hold._core.release

    async def release_and_hear_late(owner):
        reply = await release(owner)
        await heard.wait()
        return reply

    monkeypatch.setattr(hold._core, "release", release_and_hear_late)
    releasing = asyncio.create_task(hold.release())
    await asyncio.to_thread(eventually, lambda: watcher.info() is None)
    with pytest.raises(LockNotOwnedError, match="Cannot renew .* is being released"):
        await hold.renew()
    heard.set()
    await releasing
    assert not hold.lost.is_set() and not losses


async def test_holds_of_one_object_are_independent_in_tasks(aconnect, watcher):
    lock = AsyncLock(aconnect(), "market", timeout=10, limit=3)
    first, second = await lock.hold(), await lock.hold()
    assert isinstance(first, AsyncHold) and first.fence < second.fence and lock.fence is None
    await first.release()
    assert first.fence is None and await second.owned() and not await first.owned()
    with pytest.raises(LockError):
        await first.release()
    await second.renew(20)
    assert await second.guard("SET", "price", 5) is True
    async with lock.hold(blocking_timeout=0) as third:
        assert await third.owned() and watcher.holders() == 2
    await second.release()
    assert watcher.info() is None


async def test_what_a_task_of_wait_for_has_acquired_is_its_callers(aconnect, watcher):
    lock = AsyncLock(aconnect(), "market", timeout=10)
    assert await asyncio.create_task(lock.acquire())
    assert lock.fence and not lock.lost.is_set()
    await lock.release()
    assert watcher.info() is None


def test_lost_is_that_of_the_latest_hold(client, watcher):
    lock = Lock(client, "market", timeout=0.2)
    with pytest.raises(LockError, match="Nothing was acquired"):
        lock.lost
    assert lock.acquire() and lock.lost.wait(5)
    with contextlib.suppress(LockNotOwnedError):  # the server may be a moment behind
        lock.release()
    assert lock.lost.is_set()
    assert lock.acquire() and not lock.lost.is_set()


# Lost while held


def test_work_whose_hold_was_lost_does_not_end_silently(client, watcher):
    lock = Lock(client, "market", timeout=0.2)
    with pytest.raises(LockNotOwnedError, match="lost while it was held: it was held for longer than its 0.2 seconds"):
        with lock:
            assert lock.lost.wait(5)
            # The server has not noticed: the release succeeds, and comes too late all the same.
            watcher.db.set("market", lock.local.token, px=5_000)
    assert watcher.info() is None


def test_an_error_of_the_work_is_shown_beside_the_loss(client, watcher):
    with pytest.raises(LockNotOwnedError, match="lost while it was held") as raised:
        with Lock(client, "market", timeout=0.3, renew=True) as hold:
            watcher.command("LOCK.BREAK", "market")
            assert hold.lost.wait(5)
            raise ZeroDivisionError
    assert "ZeroDivisionError" in "".join(traceback.format_exception(raised.value))


async def test_an_error_of_a_cancelled_work_is_shown_beside_the_loss(aconnect, watcher):
    with pytest.raises(LockNotOwnedError, match="lost while it was held") as raised:
        async with AsyncLock(aconnect(), "market", timeout=0.3, renew=True):
            watcher.command("LOCK.BREAK", "market")
            try:
                await asyncio.sleep(20)
            finally:
                raise ZeroDivisionError
    assert "ZeroDivisionError" in "".join(traceback.format_exception(raised.value))


async def test_work_that_is_cancelled_because_its_hold_was_lost_is_told_when_and_why(aconnect, watcher):
    lock = AsyncLock(aconnect(), "market", timeout=1, renew=True)
    with pytest.raises(LockNotOwnedError, match=r"lost while it was held: .* held by no owner.* \d\.\d seconds after"):
        async with lock:
            watcher.command("LOCK.BREAK", "market")
            await asyncio.sleep(20)
    with pytest.raises(LockNotOwnedError, match="could not be renewed within its 1 seconds"):
        async with lock:
            watcher.db.client_pause(3_000)
            try:
                await asyncio.sleep(20)
            finally:
                watcher.db.client_unpause()


# What has become of a wait


@pytest.mark.parametrize("queue", [True, False])
def test_a_wait_whose_owner_comes_to_share_the_lock_is_an_error_and_ends_no_share(client, watcher, queue):
    watcher.command("LOCK.ACQUIRE", "market", "reader", 60_000, "SHARED")

    def share():
        watcher.wait_for_waiters()
        watcher.command("ZADD", "market", watcher.db.zscore("market", "reader"), "mine")

    sharing = threading.Thread(target=share)
    sharing.start()
    with pytest.raises(ResponseError, match="^NOUPGRADE"):
        Lock(client, "market", timeout=10, queue=queue).acquire(token="mine")
    sharing.join()
    with Lock(client, "other", timeout=10):  # by then the background has withdrawn what it would
        assert watcher.holders() == 2 and watcher.waiters() == 0 and watcher.calls("LOCK.RELEASE") == 0


# Cancellations, forks and interrupts


async def cancel_in_each_turn(task):
    """As anyio does, until the task has ended. How often that was."""
    times = 0
    while not task.done():
        task.cancel()
        times += 1
        await asyncio.sleep(0)
    return times


@pytest.mark.parametrize("what", ["acquire", "release"])
async def test_a_task_that_is_cancelled_again_and_again_does_not_spin(aconnect, watcher, what):
    lock = AsyncLock(aconnect(), "market", timeout=10)
    if what == "release":
        assert await lock.acquire()
    watcher.db.client_pause(1_500)
    task = asyncio.create_task(getattr(lock, what)())
    await asyncio.sleep(0.2)
    began = time.monotonic()
    assert await cancel_in_each_turn(task) < 20
    assert task.cancelled() and time.monotonic() - began < 1
    watcher.db.client_unpause()
    await asyncio.to_thread(eventually, lambda: watcher.info() is None)  # the rest was done in the background


@pytest.mark.parametrize("use", ["lock.lost", "lock.reacquire()"])
def test_a_child_does_not_go_on_to_renew_what_its_parent_held(watcher, use):
    script = textwrap.dedent(f"""
        import os, sys, time, redis
        from redis_lock_module import Lock
        lock = Lock(redis.Redis(port={PORT}), "market", timeout=0.6, renew=True)
        assert lock.acquire()
        lock.lost
        if os.fork() == 0:
            {use}
            print("child", flush=True)
            time.sleep(6)
            os._exit(0)
        time.sleep(0.3)
        os._exit(0)
    """)
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"child\n"
        eventually(lambda: watcher.info() is None, within=4, what="it is still renewed")
        renewed = watcher.calls("LOCK.RENEW")
        time.sleep(0.5)
        assert watcher.calls("LOCK.RENEW") == renewed


def test_a_child_has_a_room_of_its_own(connect, watcher):
    client = connect(max_connections=2)
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    lock = Lock(client, "market", timeout=10, thread_local=False)
    thread = threading.Thread(target=lock.acquire, daemon=True)
    thread.start()
    watcher.wait_for_waiters(1)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            lock.acquire(blocking_timeout=20)
        os._exit(0)
    watcher.wait_for_waiters(2)
    assert all(waiter["client"] for waiter in watcher.info()["waiters"])  # by BLOCK, and not by a place
    for _ in range(2):
        watcher.command("LOCK.BREAK", "market")
    thread.join(20)
    watcher.db.flushall()
    os.waitpid(child, 0)


def test_a_request_that_is_dropped_gives_its_room_back(client):
    room, lock = Room(2), Lock(client, "market")
    for _ in range(5):
        request = lock._request(None, None, None, None)
        assert room.enter(request, 2) and not room.enter(lock._request(None, None, None, None), 2)
        request = None  # as by an interrupt, before it could leave


def test_a_loop_that_is_stopped_while_something_is_held_says_nothing(watcher):
    script = textwrap.dedent(f"""
        import asyncio, redis.asyncio
        from redis_lock_module.asyncio import Lock
        async def main():
            client = redis.asyncio.Redis(port={PORT})
            lock = Lock(client, "market", timeout=0.3, renew=True)
            assert await lock.acquire()
            await asyncio.sleep(0.25)
            await client.aclose()
            return lock
        loop = asyncio.new_event_loop()
        lock = loop.run_until_complete(main())
        loop.close()
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, text=True)
    assert done.returncode == 0 and "destroyed" not in done.stderr, done.stderr


# Crowds


def test_a_crowd_of_threads_is_told_whose_turn_it_is(watcher, connect):
    client, inside = connect(max_connections=20), Inside()

    def work():
        for _ in range(5):
            with Lock(client, "market", timeout=20, sleep=5):  # to ask that seldom would take too long
                with inside:
                    pass

    threads = [threading.Thread(target=work) for _ in range(60)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert inside.most == 1 and time.monotonic() - began < 30 and watcher.info() is None


async def test_a_crowd_polls_in_the_order_in_which_it_came(watcher, aconnect):
    lock, order = AsyncLock(aconnect(max_connections=8), "market", timeout=10), []

    async def polls(number):
        async def question():
            order.append(number)
            await asyncio.sleep(0)

        await lock._link.ask_in_turn(lock._request(None, None, None, None), question)

    await asyncio.wait_for(asyncio.gather(*(polls(number) for number in range(100))), 20)
    assert order == list(range(100))


async def test_a_crowd_of_tasks_is_told_whose_turn_it_is(watcher, aconnect):
    client, inside = aconnect(max_connections=100), Inside()

    async def work():
        async with AsyncLock(client, "market", timeout=60, sleep=5):
            with inside:
                await asyncio.sleep(0)

    began = time.monotonic()
    await asyncio.wait_for(asyncio.gather(*(work() for _ in range(1_000))), 60)
    assert inside.most == 1 and time.monotonic() - began < 30 and watcher.info() is None


async def test_who_is_told_hardly_asks_meanwhile(watcher, aconnect):
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    waits = asyncio.create_task(AsyncLock(aconnect(), "market", timeout=10, queue=True, sleep=0.01).acquire())
    await asyncio.to_thread(watcher.wait_for_waiters)
    await asyncio.sleep(0.5)
    calls = watcher.calls("LOCK.ACQUIRE")
    await asyncio.sleep(1.5)
    assert watcher.calls("LOCK.ACQUIRE") == calls
    watcher.command("LOCK.RELEASE", "market", "ann")
    assert await asyncio.wait_for(waits, 5)


async def test_a_crowd_whose_subscription_breaks_is_served(watcher, aconnect):
    client = aconnect()
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    lock = AsyncLock(client, "market", timeout=10, queue=True, sleep=0.05)
    waits = asyncio.create_task(lock.acquire())
    await asyncio.to_thread(eventually, lambda: watcher.db.client_list(_type="pubsub"))
    for listener in watcher.db.client_list(_type="pubsub"):
        watcher.db.client_kill_filter(_id=listener["id"])
    watcher.command("LOCK.RELEASE", "market", "ann")
    assert await asyncio.wait_for(waits, 10)
