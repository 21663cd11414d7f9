"""A request that is given up leaves nothing behind, whenever that is. The server is the judge."""

import _weakrefset
import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
import threading
import time
import traceback
import weakref
from contextlib import suppress

import pytest
import redis
from conftest import PORT, eventually
from redis.exceptions import LockNotOwnedError
from redis_lock_module import Lock, _core, _native
from redis_lock_module._link import Line
from redis_lock_module._withdrawals import Withdrawals
from redis_lock_module.asyncio import Lock as AsyncLock

TTL = 5.0
TIMES = int(os.environ.get("TIMES", 1_000))
KILLS = int(os.environ.get("KILLS", 100))


def nothing_is_left(watcher, within=0.0):
    """Neither a hold nor a place; and the next that comes does not wait."""
    eventually(lambda: watcher.info() is None, within=within + 2, what=f"left: {watcher.info()}")
    assert watcher.command("LOCK.ACQUIRE", "market", "next", 1_000), "it waits for an owner that has gone"
    watcher.command("LOCK.RELEASE", "market", "next")


async def its_connections_are_whole(client):
    """Each reply is that to its own question."""
    async def ask(number):
        assert await client.echo(str(number)) in (str(number), str(number).encode())

    await asyncio.gather(*(ask(number) for number in range(50)))


WAYS = {"by BLOCK": {}, "by QUEUE": {"queue": True, "sleep": 0.002}, "shared": {"shared": True}, "limited": {"limit": 2}}


@pytest.mark.parametrize("ways", [["by BLOCK"], ["by QUEUE"], list(WAYS)], ids=["BLOCK", "QUEUE", "all kinds"])
@pytest.mark.parametrize("protocol", [2, 3])
async def test_tasks_that_are_cancelled_leave_nothing(aconnect, watcher, protocol, ways):
    client, chance, done = aconnect(protocol=protocol, max_connections=100), random.Random(1), [0]

    async def work(options):
        async with AsyncLock(client, "market", timeout=TTL, **options):
            await asyncio.sleep(chance.uniform(0, 0.003))
            done[0] += 1

    async def worker():
        for _ in range(TIMES // 20):
            task = asyncio.create_task(work(WAYS[chance.choice(ways)]))
            await asyncio.sleep(chance.uniform(0, 0.05))
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass

    await asyncio.wait_for(asyncio.gather(*(worker() for _ in range(20))), 60)
    nothing_is_left(watcher)
    assert done[0]
    await its_connections_are_whole(client)


async def test_tasks_on_a_single_connection_that_are_cancelled_leave_nothing(aconnect, watcher):
    client, chance = aconnect(single_connection_client=True), random.Random(2)

    async def work():
        async with AsyncLock(client, "market", timeout=TTL, sleep=0.005):
            await asyncio.sleep(chance.uniform(0, 0.003))

    for _ in range(TIMES // 100):
        tasks = [asyncio.create_task(work()) for _ in range(20)]
        for task in tasks:
            await asyncio.sleep(chance.uniform(0, 0.004))
            task.cancel()
        assert not [one for one in await asyncio.gather(*tasks, return_exceptions=True)
                    if one is not None and not isinstance(one, asyncio.CancelledError)]
        nothing_is_left(watcher)
    await its_connections_are_whole(client)


@pytest.mark.parametrize("options", [{}, {"queue": True, "sleep": 5}], ids=["BLOCK", "QUEUE"])
async def test_a_cancelled_wait_is_over_at_once_and_its_connection_is_kept(aconnect, watcher, options):
    client = aconnect()
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    for _ in range(20):
        task = asyncio.create_task(AsyncLock(client, "market", timeout=TTL, **options).acquire())
        while watcher.waiters() == 0:
            await asyncio.sleep(0.001)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 3 and watcher.waiters() == 0
    assert len(watcher.db.client_list(_type="normal")) <= 4


async def test_a_release_that_is_cancelled_is_done(aconnect, watcher):
    lock, chance = AsyncLock(aconnect(), "market", timeout=TTL), random.Random(3)
    for _ in range(50):
        assert await lock.acquire(blocking=False)
        task = asyncio.create_task(lock.release())
        await asyncio.sleep(chance.choice([0, 0, 0.0002, 0.0005]))
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        if lock.local.token is not None:  # it had not begun
            await lock.release()
        nothing_is_left(watcher)


async def test_a_server_that_does_not_answer_holds_up_no_cancellation(aconnect, watcher):
    task = asyncio.create_task(AsyncLock(aconnect(), "market", timeout=TTL).acquire())
    watcher.command("CLIENT", "PAUSE", 6_000)
    await asyncio.sleep(0)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - began < 5


class GaveUp(BaseException):
    pass


def in_a_process_of_its_own(work):
    """An interrupt can also leave a lock of Python's own library locked, that of `logging` for one: it stays there."""
    child = os.fork()
    if not child:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def outcome():
        pid, status = os.waitpid(child, os.WNOHANG)
        return pid and (status,)

    try:
        (status,) = eventually(outcome, within=100)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    assert status == 0


MAY_BE_INTERRUPTED = (os.path.dirname(_core.__file__), threading.__file__, contextlib.__file__, weakref.__file__,
                      _weakrefset.__file__)


def interrupted(work, when):
    """Works, is interrupted after call number `when`, and returns where that was; None if there were fewer calls. Those of
    this package and of what it uses of Python's library count. A signal is handled at the same points."""
    count, where = 0, None

    def after_each_call(frame, event, _):
        nonlocal count, where
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(MAY_BE_INTERRUPTED):
            return
        count += 1
        if count == when:
            sys.setprofile(None)
            where = f"{frame.f_code.co_filename}:{frame.f_lineno}, {frame.f_code.co_name}"
            raise GaveUp

    try:
        sys.setprofile(after_each_call)
        work()
    except GaveUp:
        pass
    finally:
        sys.setprofile(None)
    return where


@pytest.mark.parametrize("options", [{}, {"queue": True, "sleep": 0.002}, {"renew": True}, {"blocking_timeout": 5}],
                         ids=["BLOCK", "QUEUE", "renewed", "deadline"])
def test_an_interrupt_after_any_call_leaves_nothing_and_holds_up_no_other_thread(watcher, options):
    def other():
        with Lock(redis.Redis(port=PORT), "bazaar", timeout=TTL, renew=True):
            pass

    def try_all():
        client = redis.Redis(port=PORT, socket_timeout=20)
        for when in itertools.count(1):
            lock = Lock(client, "market", timeout=TTL, thread_local=False, **options)
            watcher.command("LOCK.ACQUIRE", "market", "ann", 3)
            where = interrupted(lambda: (lock.acquire(), lock.release()), when)
            if not where:
                break
            if lock.local.token is not None:  # interrupted while it held it, or while it released it
                with suppress(LockNotOwnedError):
                    lock.release()
            thread = threading.Thread(target=other, daemon=True)
            thread.start()
            thread.join(5)
            assert not thread.is_alive(), f"held up after an interrupt in {where}"
            nothing_is_left(watcher)
        assert when > 100

    in_a_process_of_its_own(try_all)


@pytest.mark.parametrize("options", [{}, {"queue": True, "sleep": 0.002}, {"blocking_timeout": 5}],
                         ids=["BLOCK", "QUEUE", "deadline"])
def test_a_thread_that_is_interrupted_leaves_nothing(watcher, options):
    def interrupt(*_):
        raise GaveUp

    def work():
        client, chance, held, interrupted = redis.Redis(port=PORT, socket_timeout=20), random.Random(4), 0, 0
        lock = Lock(client, "market", timeout=TTL, thread_local=False, **options)
        signal.signal(signal.SIGALRM, interrupt)
        for _ in range(TIMES // 4):
            # Held by another owner for a moment, so that the interrupt may come while it waits.
            watcher.command("LOCK.ACQUIRE", "market", "ann", chance.randint(1, 8))
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.012))
                held += lock.acquire()
                lock.release()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except GaveUp:
                interrupted += 1
            if lock.local.token is not None:
                with suppress(LockNotOwnedError):
                    lock.release()
            nothing_is_left(watcher)
        assert held and interrupted

    in_a_process_of_its_own(work)


@pytest.mark.parametrize("entered", [lambda lock: lock, lambda lock: lock.hold()], ids=["lock", "hold"])
def test_an_interrupt_at_the_end_of_with_leaves_nothing(client, watcher, monkeypatch, entered):
    say = Line.say

    async def interrupted(line, *words, **options):
        if words[0] == "LOCK.RELEASE":
            monkeypatch.setattr(Line, "say", say)
            raise GaveUp
        return await say(line, *words, **options)

    with pytest.raises(GaveUp):
        with entered(Lock(client, "market", timeout=60)):
            monkeypatch.setattr(Line, "say", interrupted)
    assert watcher.info() is None


def test_an_interrupt_at_the_beginning_of_with_leaves_nothing(client, watcher):
    class Interrupted(Lock):
        def acquire(self):
            assert super().acquire()
            raise GaveUp

    with pytest.raises(GaveUp):
        with Interrupted(client, "market", timeout=60):
            pass
    assert watcher.info() is None


async def test_a_release_waits_for_a_connection_while_others_use_all_of_them(aconnect, watcher):
    client = aconnect(max_connections=2)
    hold = await AsyncLock(client, "market", timeout=60).hold()
    in_use = [await client.connection_pool.get_connection() for _ in range(2)]
    release = asyncio.create_task(hold.release())
    await asyncio.sleep(0.2)
    assert not release.done() and watcher.holders() == 1
    for connection in in_use:
        await client.connection_pool.release(connection)
    await asyncio.wait_for(release, 5)
    assert watcher.info() is None


@pytest.mark.parametrize("single", [False, True], ids=["pool", "single"])
def test_a_thread_that_is_interrupted_before_the_reply_leaves_it_to_nobody(connect, watcher, single):
    client = connect(single_connection_client=single)
    parse_response = client.parse_response

    def interrupted(*_, **__):
        client.parse_response = parse_response
        raise GaveUp

    assert client.ping()
    client.parse_response = interrupted
    watcher.command("CLIENT", "PAUSE", 200)
    with pytest.raises(GaveUp):
        Lock(client, "market", timeout=TTL).acquire(blocking=False)
    assert client.echo("mine") == b"mine"
    nothing_is_left(watcher)


@pytest.mark.parametrize("options", [{}, {"queue": True, "sleep": 0.002}], ids=["BLOCK", "QUEUE"])
def test_clients_that_stop_listening_leave_nothing(connect, watcher, options):
    """Their read timeout is shorter than what the server takes now and then, and nothing asks again."""
    client = connect(socket_timeout=0.02, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))
    failed, stop = [], threading.Event()

    def work():
        chance = random.Random()
        for _ in range(TIMES // 8):
            lock = Lock(client, "market", timeout=1, **options)
            try:
                if lock.acquire(blocking_timeout=chance.uniform(0, 0.05)):
                    time.sleep(0.002)
                    lock.release()
            except redis.RedisError as error:
                failed.append(error)

    def pause():
        chance = random.Random(5)
        while not stop.wait(chance.uniform(0.02, 0.1)):
            watcher.command("CLIENT", "PAUSE", chance.randint(10, 60))

    threads = [threading.Thread(target=work) for _ in range(4)]
    pauses = threading.Thread(target=pause)
    for thread in [*threads, pauses]:
        thread.start()
    for thread in threads:
        thread.join(60)
    stop.set()
    pauses.join()
    assert any(isinstance(error, redis.TimeoutError) for error in failed)
    # What no RELEASE could be sent for, because the server did not answer then either, ends by itself.
    nothing_is_left(watcher, within=1 if not options else 2)


def callers(frame):
    while frame:
        yield frame
        frame = frame.f_back


def test_requests_that_fail_while_the_server_does_not_answer_are_withdrawn_by_one_thread(connect, start_server):
    server = start_server()
    client = connect(port=server.port, retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))
    connections = [client.connection_pool.get_connection() for _ in range(40)]
    client.connection_pool.connection_kwargs["socket_timeout"] = 0.05
    for connection in connections:  # a busy machine takes longer to connect
        connection.socket_timeout = 0.05
        connection._sock.settimeout(0.05)
        client.connection_pool.release(connection)
    server.process.send_signal(signal.SIGSTOP)
    try:
        for _ in connections:
            with pytest.raises(redis.TimeoutError):
                Lock(client, "market", timeout=60).acquire(blocking=False)
        assert [caller.f_code for frame in sys._current_frames().values() for caller in callers(frame)].count(
            Withdrawals.go_on.__code__) == 1
    finally:
        server.process.send_signal(signal.SIGCONT)
    nothing_is_left(server.watcher, within=20)


@pytest.mark.parametrize("options", [{}, {"queue": True, "sleep": 0.01}], ids=["BLOCK", "QUEUE"])
def test_processes_that_are_killed_leave_nothing_beyond_a_ttl_or_a_lease(watcher, monkeypatch, options):
    chance, ttl, lease = random.Random(6), 0.4, 2.0
    monkeypatch.setattr(_native, "SURE_LEASE", lease)
    watcher.db.close()  # no connection is shared with a child
    at_once = 10 if options else 5
    for _ in range(max(1, KILLS // 2 // at_once)):
        children = [fork_one_that_works(ttl, options) for _ in range(at_once)]
        try:
            time.sleep(chance.uniform(0, 0.1))
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
        began = time.monotonic()
        fence = watcher.command("LOCK.ACQUIRE", "market", "another owner", 5_000, "BLOCK", 20_000)
        waited = time.monotonic() - began
        # The hold of a process that was killed; and by QUEUE the turn of one more, whose place is not claimed.
        bound = ttl + (lease if options else 0) + 1.5
        assert fence and waited < bound, f"waited for {waited}"
        watcher.command("LOCK.RELEASE", "market", "another owner")
    nothing_is_left(watcher, within=ttl + lease)


def fork_one_that_works(ttl, options):
    child = os.fork()
    if child:
        return child
    try:
        client = redis.Redis(port=PORT, socket_timeout=20)
        while True:
            with Lock(client, "market", timeout=ttl, **options):
                time.sleep(0.001)
    finally:
        os._exit(1)
