"""The network is down, or the server does not answer: what was held is free soon after, and no caller waits too long."""

import asyncio
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress

import pytest
import redis
import redis.asyncio
from conftest import Proxy, close, eventually
from redis.exceptions import LockNotOwnedError
from redis_lock_module import Lock, _core, _holds, _server, _tasks
from redis_lock_module._threads import ThreadLink
from redis_lock_module.asyncio import Lock as AsyncLock

TTL = 60.0


@pytest.fixture(params=[True, False], ids=["module", "bare"])
def server(request, start_server):
    return start_server(module=request.param)


@pytest.fixture
def proxy(server):
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture(params=[True, False], ids=["no retries", "the client's own"])
def gives_up(request):
    """redis-py outlasts a short outage by itself, or not, depending on its version."""
    return request.param


def no_retries(retry=redis.retry.Retry):
    return {"retry": retry(redis.backoff.NoBackoff(), 0)}


def is_free(server):
    return not server.watcher.db.exists("market")


OUTAGES = [(0.5, lambda lock: lock), (3, lambda lock: lock.hold())]


@pytest.mark.parametrize("outage, entered", OUTAGES, ids=["half a second, lock", "3 seconds, hold"])
def test_a_release_that_failed_goes_on_until_the_server_hears_of_it(server, proxy, gives_up, outage, entered):
    client = redis.Redis(port=proxy.port, **(no_retries() if gives_up else {}))
    with pytest.raises(redis.ConnectionError) if gives_up else suppress(redis.ConnectionError):
        with entered(Lock(client, "market", timeout=TTL)):
            proxy.go_down(outage)
    eventually(lambda: is_free(server), what="it is still held")
    close(client)


@pytest.mark.parametrize("outage, entered", OUTAGES, ids=["half a second, lock", "3 seconds, hold"])
async def test_a_release_of_a_task_that_failed_goes_on_until_the_server_hears_of_it(
        server, proxy, gives_up, outage, entered):
    client = redis.asyncio.Redis(port=proxy.port, **(no_retries(redis.asyncio.retry.Retry) if gives_up else {}))
    with pytest.raises(redis.ConnectionError) if gives_up else suppress(redis.ConnectionError):
        async with entered(AsyncLock(client, "market", timeout=TTL)):
            proxy.go_down(outage)
    await asyncio.to_thread(eventually, lambda: is_free(server), what="it is still held")
    await client.aclose()
    await client.connection_pool.disconnect()


def test_a_release_that_failed_and_went_on_is_no_loss_when_it_is_called_again(server, proxy):
    client = redis.Redis(port=proxy.port, **no_retries())
    hold = Lock(client, "market", timeout=TTL).hold()
    proxy.go_down(0.2)
    with pytest.raises(redis.ConnectionError):
        hold.release()
    eventually(lambda: is_free(server))
    hold.release()
    close(client)


def test_a_release_that_goes_on_ends_no_later_hold_of_the_same_owner(server, proxy):
    client = redis.Redis(port=proxy.port, **no_retries())
    lock = Lock(client, "market", timeout=TTL)
    assert lock.acquire(token="ann")
    proxy.go_down(1.5)  # long enough for pauses in which the next one comes first
    with pytest.raises(redis.ConnectionError):
        lock.release()

    def acquired():
        with suppress(redis.ConnectionError):
            return lock.acquire(token="ann", blocking_timeout=1)

    eventually(acquired)
    eventually(lambda: not _server.server_of(client.connection_pool).withdrawals.known)
    assert server.watcher.db.get("market") == "ann" and lock.owned()
    lock.release()
    assert is_free(server)
    close(client)


def test_a_release_goes_on_after_its_owner_has_tried_to_acquire_anew(server, proxy):
    client = redis.Redis(port=proxy.port, **no_retries())
    lock = Lock(client, "market", timeout=TTL)
    assert lock.acquire(token="ann")
    proxy.go_down()
    for failing in (lock.release, lambda: lock.acquire(token="ann"), lambda: lock.acquire(token="ann", blocking=False)):
        with pytest.raises(redis.ConnectionError):
            failing()
    proxy.go_up()
    eventually(lambda: is_free(server), what="it is still held")
    close(client)


async def test_a_release_that_goes_on_ends_no_later_hold_of_the_same_owner_in_tasks(server, proxy):
    client = redis.asyncio.Redis(port=proxy.port, **no_retries(redis.asyncio.retry.Retry))
    lock = AsyncLock(client, "market", timeout=TTL)
    assert await lock.acquire(token="ann")
    before = asyncio.all_tasks()
    proxy.go_down(1.5)
    with pytest.raises(redis.ConnectionError):
        await lock.release()
    acquired = False
    while not acquired:
        with suppress(redis.ConnectionError):
            acquired = await asyncio.wait_for(lock.acquire(token="ann"), 20)
        await asyncio.sleep(0.001)
    await asyncio.wait(asyncio.all_tasks() - before, timeout=20)
    assert await asyncio.to_thread(server.watcher.db.get, "market") == "ann" and await lock.owned()
    await lock.release()
    await client.aclose()
    await client.connection_pool.disconnect()


def failing(error):
    async def fail(*_):
        raise error
    return fail


@pytest.mark.parametrize("renews", [False, True])
def test_a_shorter_renewal_whose_reply_was_lost_ends_the_hold_then(client, watcher, monkeypatch, renews):
    hold = Lock(client, "market", timeout=TTL, renew=renews).hold()
    monkeypatch.setattr(hold._core, "renew", failing(redis.ConnectionError("it breaks")))
    with pytest.raises(redis.ConnectionError):
        hold.renew(5)
    pause(monkeypatch, 6)
    assert not hold.held


def test_a_shorter_renewal_that_was_refused_changes_nothing(client, watcher, monkeypatch):
    hold = Lock(client, "market", timeout=TTL).hold()
    monkeypatch.setattr(hold._core, "renew", failing(redis.ResponseError("NOPERM no permissions")))
    with pytest.raises(redis.ResponseError):
        hold.renew(5)
    pause(monkeypatch, 6)
    assert hold.held


def test_a_release_that_failed_goes_on_as_long_as_a_renewal_may_have_been_heard(client, watcher, monkeypatch):
    hold = Lock(client, "market", timeout=TTL).hold()
    breaks, withdrawn = failing(redis.ConnectionError("it breaks")), []
    monkeypatch.setattr(hold._core, "renew", breaks)
    monkeypatch.setattr(hold._core, "release", breaks)
    monkeypatch.setattr(_holds, "Withdrawal", lambda _core, _owner, until: withdrawn.append(until))
    asked = time.monotonic()
    for fails in (lambda: hold.renew(600), hold.release):
        with pytest.raises(redis.ConnectionError):
            fails()
    assert withdrawn[0] >= asked + 600


def test_a_hold_whose_release_failed_is_forgotten_when_its_time_is_over(client, watcher, monkeypatch):
    lock = Lock(client, "market", timeout=TTL)
    assert lock.acquire()
    with monkeypatch.context() as outage:
        outage.setattr(lock._core, "release", failing(redis.ConnectionError("it breaks")))
        with pytest.raises(redis.ConnectionError):
            lock.release()
    assert lock.local.token is not None  # it can be released again
    pause(monkeypatch, TTL + 1)
    assert lock.local.token is None and lock.lost.is_set()


# A server that does not answer


@contextmanager
def silent(server):
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


# How long the caller has patience, and how long it may take at most: half a second more, or two, on an idle machine.
SECOND, TRY = ({"blocking_timeout": 1}, 5), ({"blocking": False}, 6)
SILENCES = pytest.mark.parametrize("patience, within, is_used, of_the_client, of_the_lock", [
    (*SECOND, True, {}, {}), (*SECOND, False, {}, {}), (*TRY, True, {}, {}), (*TRY, False, {}, {}),
    (*SECOND, True, {}, {"queue": True}), (*SECOND, False, {"max_connections": 1}, {}),
], ids=["a second", "a second, new client", "a try", "a try, new client", "queue", "one connection"])


@contextmanager
def its_error(within):
    """Or False, while what goes on in the background has the only connection."""
    began = time.monotonic()
    with suppress(redis.TimeoutError):
        yield
    assert time.monotonic() - began < within


def is_running(function):
    """In any thread."""
    callers = list(sys._current_frames().values())
    while callers:
        if any(frame.f_code is function.__code__ for frame in callers):
            return True
        callers = [frame.f_back for frame in callers if frame.f_back]
    return False


@SILENCES
def test_a_deadline_holds_with_a_silent_server(server, patience, within, is_used, of_the_client, of_the_lock):
    if of_the_lock and not server.module:
        pytest.skip("only the module has a queue")
    client = redis.Redis(port=server.port, **of_the_client)
    lock = Lock(client, "market", timeout=TTL, **of_the_lock)
    if is_used:
        assert lock.acquire(**patience)
        lock.release()
    with silent(server):
        for _ in range(2 if of_the_client else 1):
            with its_error(within):
                assert not lock.acquire(**patience)
    # What was heard at last is withdrawn.
    eventually(lambda: not is_running(_core.Core.acquire))
    eventually(lambda: not _server.server_of(client.connection_pool).withdrawals.known)
    assert is_free(server) and lock.acquire(**patience)
    lock.release()
    assert is_free(server)
    close(client)


@SILENCES
async def test_a_deadline_of_a_task_holds_with_a_silent_server(
        server, patience, within, is_used, of_the_client, of_the_lock):
    if of_the_lock and not server.module:
        pytest.skip("only the module has a queue")
    client = redis.asyncio.Redis(port=server.port, **of_the_client)
    lock = AsyncLock(client, "market", timeout=TTL, **of_the_lock)
    if is_used:
        assert await lock.acquire(**patience)
        await lock.release()
    with silent(server):
        for _ in range(2 if of_the_client else 1):
            with its_error(within):
                assert not await lock.acquire(**patience)
    while _tasks._background:
        await asyncio.wait(_tasks._background)
    assert await asyncio.to_thread(is_free, server) and await lock.acquire(**patience)
    await lock.release()
    assert await asyncio.to_thread(is_free, server)
    await client.aclose()
    await client.connection_pool.disconnect()


def test_a_reply_that_comes_after_the_deadline_ends_no_later_hold_of_the_same_owner(client, watcher, monkeypatch):
    ask, heard, acquired = ThreadLink.ask, threading.Event(), []

    async def late(link, words):
        monkeypatch.setattr(ThreadLink, "ask", ask)
        reply = await ask(link, words)
        heard.wait(20)
        return reply

    monkeypatch.setattr(ThreadLink, "ask", late)
    lock = Lock(client, "market", timeout=TTL, queue=True, thread_local=False)
    with pytest.raises(redis.TimeoutError):
        lock.acquire(token="ann", blocking_timeout=0.2)
    retry = threading.Thread(target=lambda: acquired.append(lock.acquire(token="ann", blocking_timeout=20)))
    retry.start()
    retry.join(0.5)
    heard.set()
    retry.join(20)
    eventually(lambda: not is_running(_core.Core.acquire))
    eventually(lambda: not _server.server_of(client.connection_pool).withdrawals.known)
    assert acquired == [True] and watcher.db.get("market") == "ann"
    lock.release()
    assert watcher.info() is None


def test_a_reply_that_comes_after_a_retry_was_over_too_leaves_nothing(client, watcher, monkeypatch):
    ask, heard = ThreadLink.ask, threading.Event()

    async def late(link, words):
        monkeypatch.setattr(ThreadLink, "ask", ask)
        heard.wait(20)
        return await ask(link, words)

    monkeypatch.setattr(ThreadLink, "ask", late)
    lock = Lock(client, "market", timeout=TTL, queue=True)
    with pytest.raises(redis.TimeoutError):
        lock.acquire(token="ann", blocking_timeout=0.2)
    assert not lock.acquire(token="ann", blocking=False)  # the first may be heard of later
    heard.set()
    eventually(lambda: not is_running(_core.Core.acquire))
    eventually(lambda: not _server.server_of(client.connection_pool).withdrawals.known)
    assert watcher.info() is None


def test_a_request_that_arrives_after_all_was_given_up_or_released_is_withdrawn(server, proxy):
    client = redis.Redis(port=proxy.port)
    lock, command = Lock(client, "market", timeout=TTL), "LOCK.ACQUIRE" if server.module else "SET"
    assert lock.acquire()
    lock.release()
    asked = server.watcher.calls(command)
    proxy.delays = b"market"
    with suppress(redis.TimeoutError):
        assert lock.acquire(blocking_timeout=0.2)
        lock.release()
    proxy.may_arrive.set()
    eventually(lambda: server.watcher.calls(command) > asked and not is_running(_core.Core.acquire))
    eventually(lambda: is_free(server), what="it is still held")
    close(client)


async def test_a_task_that_gives_up_ends_no_later_hold_of_the_same_owner(server):
    client = redis.asyncio.Redis(port=server.port)
    lock = AsyncLock(client, "market", timeout=TTL)
    assert await lock.acquire(token="ann")
    await lock.release()
    with silent(server):
        with pytest.raises(redis.TimeoutError):
            await lock.acquire(token="ann", blocking_timeout=0.5)
        retry = asyncio.create_task(lock.acquire(token="ann", blocking_timeout=20))
        await asyncio.wait({retry}, timeout=0.2)
    assert await asyncio.wait_for(retry, 20)
    while _tasks._background:
        await asyncio.wait(_tasks._background)
    assert await asyncio.to_thread(server.watcher.db.get, "market") == "ann"
    assert not _server.server_of(client.connection_pool).withdrawals.known
    await lock.release()
    await client.aclose()
    await client.connection_pool.disconnect()


async def test_a_loop_that_was_held_up_hears_that_the_time_is_over(aconnect, watcher):
    watcher.command("LOCK.ACQUIRE", "market", "ann", 60_000)
    task = asyncio.create_task(AsyncLock(aconnect(), "market").acquire(blocking_timeout=0.2))
    await asyncio.to_thread(watcher.wait_for_waiters)
    time.sleep(1.5)  # and not asyncio's
    assert await task is False


# A child


@pytest.mark.parametrize("entered", [lambda lock: lock, lambda lock: lock.hold()], ids=["lock", "hold"])
@pytest.mark.parametrize("error", [None, SystemExit, KeyboardInterrupt])
def test_a_child_that_leaves_the_with_does_not_release_what_its_parent_holds(server, entered, error):
    client, parent = redis.Redis(port=server.port), os.getpid()
    refused = False
    try:
        with entered(Lock(client, "market", timeout=TTL)) as hold:
            child = os.fork()
            if child:
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                assert hold.owned()
            elif error:
                raise error
    except LockNotOwnedError as why:
        if os.getpid() == parent:
            raise
        refused = str(parent) in str(why)
    except (SystemExit, KeyboardInterrupt):
        refused = True  # it stays what it is
    finally:
        if os.getpid() != parent:
            os._exit(0 if refused else 1)
    assert is_free(server)
    close(client)


# A pause


LOOKS = {"held": lambda one: one.held, "lost": lambda one: not one.lost.is_set(),
         "fence": lambda one: one.fence is not None}


def pause(monkeypatch, seconds):
    """As of the whole process: nothing has run meanwhile, and the caller looks first."""
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + seconds)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("whose", ["hold", "lock"])
def test_the_first_look_after_a_pause_beyond_the_ttl_says_that_it_is_lost(client, watcher, monkeypatch, look, whose):
    told = []
    lock = Lock(client, "market", timeout=TTL, renew=True, on_lost=lambda: told.append(True))
    hold = lock.hold() if whose == "hold" else lock
    assert whose == "hold" or lock.acquire()
    assert LOOKS[look](hold) and hold.held and hold.guard("SET", "price", 5)
    pause(monkeypatch, TTL + 1)
    assert not LOOKS[look](hold) and not hold.held and hold.lost.is_set() and hold.fence is None
    with pytest.raises(LockNotOwnedError, match="Cannot guard by .* held for longer than its 60 seconds"):
        hold.guard("SET", "price", 6)
    assert watcher.db.get("price") == "5"
    eventually(lambda: told)
    with suppress(LockNotOwnedError):
        hold.release()
    assert not hold.held


@pytest.mark.parametrize("look", LOOKS)
async def test_the_first_look_of_a_task_after_a_pause_beyond_the_ttl_says_that_it_is_lost(
        aconnect, watcher, monkeypatch, look):
    lock = AsyncLock(aconnect(), "market", timeout=TTL, renew=True)
    with pytest.raises(LockNotOwnedError, match="lost while it was held"):
        async with lock as hold:
            assert LOOKS[look](hold) and lock.held and await hold.guard("SET", "price", 5)
            pause(monkeypatch, TTL + 1)
            assert not LOOKS[look](hold) and not lock.held and lock.fence is None
            with pytest.raises(LockNotOwnedError, match="Cannot guard by"):
                await hold.guard("SET", "price", 6)
    assert watcher.db.get("price") == "5"


def test_a_hold_whose_owner_was_granted_another_number_meanwhile_guards_and_releases_nothing(client, watcher):
    lock = Lock(client, "market", timeout=TTL)
    first, again = lock.hold(token="ann"), lock.hold(token="ann")
    assert first.fence == again.fence and first.held and first.guard("SET", "price", 4)
    watcher.command("LOCK.BREAK", "market")
    second = lock.hold(token="ann")
    assert not first.held and not again.held and second.held
    for late in (lambda: first.guard("SET", "price", 5), first.release, again.release):
        with pytest.raises(LockNotOwnedError, match="was granted anew, with another fencing token"):
            late()
    assert watcher.db.get("price") == "4" and second.guard("SET", "price", 6)
    second.release()
    assert watcher.info() is None


async def test_a_hold_of_a_task_whose_owner_was_granted_another_number_meanwhile_guards_nothing(aconnect, watcher):
    lock = AsyncLock(aconnect(), "market", timeout=TTL)
    first = await lock.hold(token="ann")
    watcher.command("LOCK.BREAK", "market")
    second = await lock.hold(token="ann")
    with pytest.raises(LockNotOwnedError, match="was granted anew"):
        await first.guard("SET", "price", 5)
    assert not watcher.db.exists("price") and await second.guard("SET", "price", 6)
    await second.release()
