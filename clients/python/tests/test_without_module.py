"""The same lock on a server without the module: by SET NX, on the same key, so that both ways exclude each other."""

import asyncio
import logging
import multiprocessing
import os
import threading
import time

import pytest
import redis
import redis.asyncio
from conftest import eventually
from redis.exceptions import LockError, LockNotOwnedError
from redis_lock_module import Lock, ModuleMissingError, _errors, _server
from redis_lock_module.asyncio import Lock as AsyncLock

MODULE = os.environ["REDIS_LOCK_MODULE"]
ROUNDS = int(os.environ.get("ROUNDS", 2_000))


@pytest.fixture
def bare(start_server):
    server = start_server(module=False)
    server.watcher.db.config_resetstat()
    return server


@pytest.fixture
def loadable(start_server):
    """One into which the module can be loaded."""
    server = start_server(module=False)
    if int(server.watcher.db.info("server")["redis_version"].split(".")[0]) < 7:
        pytest.skip("the module needs Redis 7")
    server.kill()
    return start_server("enable-module-command local", module=False)


def load(server):
    server.watcher.command("MODULE", "LOAD", MODULE)


def unload(server):
    def is_unloaded():
        try:
            return server.watcher.command("MODULE", "UNLOAD", "lock")
        except redis.ResponseError:
            return False  # a client still waits

    server.watcher.command("CONFIG", "SET", "lock.drain", "yes")
    eventually(is_unloaded)


@pytest.fixture(params=[(2, False), (3, True)], ids=["RESP2", "RESP3-decoded"])
def client(request, bare):
    if request.param[0] == 3 and int(bare.watcher.db.info("server")["redis_version"].split(".")[0]) < 6:
        pytest.skip("no RESP3")
    client = redis.Redis(port=bare.port, protocol=request.param[0], decode_responses=request.param[1])
    yield client
    client.close()


def test_a_lock_is_acquired_used_and_released(client, bare, caplog):
    db = bare.watcher.db
    lock = Lock(client, "market", timeout=10)
    with caplog.at_level(logging.WARNING, "redis_lock_module"):
        assert lock.acquire() and lock.fence is None and db.get("market") == lock.local.token.decode()
        assert 9_000 < db.pttl("market") <= 10_000 and lock.locked() and lock.owned()
        assert not Lock(client, "market", timeout=10).acquire(blocking=False)
        assert not Lock(client, "market", timeout=10).acquire(blocking_timeout=0.05)
    assert len(caplog.records) == 1 and "redis-lock module" in caplog.text  # once for each client
    assert lock.extend(10) and 19_000 < db.pttl("market") <= 20_000
    assert lock.extend(5, replace_ttl=True) and db.pttl("market") <= 5_000
    assert lock.reacquire() and 9_000 < db.pttl("market") <= 10_000
    assert lock.guard("SET", "price", 5) is True and lock.guard("INCR", "price") == 6
    assert lock.guard("HSET", "goods", "sword", "bob") == 1 and client.hgetall("goods") == lock.guard("HGETALL", "goods")
    with pytest.raises(redis.ResponseError):
        lock.guard("INCR", "goods")
    with pytest.raises(redis.ResponseError):
        lock.guard("NOSUCHCOMMAND")
    assert lock.owned()
    lock.release()
    assert not db.exists("market")
    for late in (lock.release, lock.reacquire, lambda: lock.extend(1), lambda: lock.guard("SET", "price", 7)):
        assert lock.acquire()
        db.set("market", "another owner")
        with pytest.raises(LockNotOwnedError):
            late()
        assert db.get("market") == "another owner" and db.get("price") == "6"
        db.delete("market")


async def test_a_lock_is_acquired_used_and_released_by_a_task(bare):
    client, db = redis.asyncio.Redis(port=bare.port), bare.watcher.db
    lock = AsyncLock(client, "market", timeout=10)
    assert await lock.acquire() and lock.fence is None and await lock.locked() and await lock.owned()
    assert not await AsyncLock(client, "market", timeout=10).acquire(blocking_timeout=0.05)
    assert await lock.extend(10) and 19_000 < db.pttl("market") <= 20_000
    assert await lock.guard("INCR", "price") == 1
    await lock.release()
    async with lock as hold:
        db.set("market", "another owner")
        for late in (hold.renew, lambda: hold.guard("INCR", "price")):
            with pytest.raises(LockNotOwnedError):
                await late()
        db.set("market", hold.token)
        hold._life._losses.clear()
    assert db.get("price") == "1" and not db.exists("market")
    await client.aclose()
    await client.connection_pool.disconnect()


@pytest.mark.parametrize("module", [True, False], ids=["module", "bare"])
def test_a_hold_whose_key_became_another_type_is_lost(start_server, module):
    server = start_server(module=module)
    client = redis.Redis(port=server.port)
    for late in (lambda hold: hold.renew(), lambda hold: hold.extend(5), lambda hold: hold.release()):
        hold = Lock(client, "market", timeout=10).hold()
        server.watcher.db.delete("market")
        server.watcher.db.lpush("market", "sword")
        assert not hold.owned()
        with pytest.raises(LockNotOwnedError):
            late(hold)
        assert server.watcher.db.lrange("market", 0, -1) == ["sword"]
        assert not _server.server_of(client.connection_pool).withdrawals.known
        server.watcher.db.delete("market")
    client.close()


def test_a_hold_is_renewed_and_its_loss_is_noticed(client, bare):
    with pytest.raises(LockNotOwnedError, match="lost while it was held"):
        with Lock(client, "market", timeout=0.6, renew=True) as hold:
            assert not hold.lost.wait(1.5) and hold.owned()
            bare.watcher.db.delete("market")
            assert hold.lost.wait(5)


@pytest.mark.parametrize("sleep, least, most", [(0.01, 30, 300), (5, 1, 1)])
def test_who_waits_asks_every_sleep_seconds(client, bare, sleep, least, most):
    watcher = bare.watcher
    watcher.db.set("market", "ann", px=60_000)
    watcher.db.config_resetstat()
    lock, served = Lock(client, "market", timeout=10, sleep=sleep, thread_local=False), threading.Event()
    thread = threading.Thread(target=lambda: lock.acquire() and served.set(), daemon=True)
    thread.start()
    time.sleep(2)
    assert least <= watcher.calls("SET") <= most and not served.is_set()
    watcher.db.delete("market")
    assert served.wait(20)
    thread.join(20)
    lock.release()


def test_a_release_wakes_the_next_thread_that_waits_in_the_same_process(client, bare):
    holder, order = Lock(client, "market", timeout=60), []
    assert holder.acquire()

    def work(number):
        with Lock(client, "market", timeout=60, sleep=30):
            order.append(number)

    threads = []
    for number in range(3):
        threads.append(threading.Thread(target=work, args=(number,), daemon=True))
        threads[-1].start()
        eventually(lambda: bare.watcher.calls("SET") >= number + 2)
    began = time.monotonic()
    holder.release()
    for thread in threads:
        thread.join(20)
    assert order == [0, 1, 2] and time.monotonic() - began < 10


async def test_a_release_wakes_the_next_task_that_waits_in_the_same_process(bare):
    client, order = redis.asyncio.Redis(port=bare.port), []
    holder = AsyncLock(client, "market", timeout=60)
    assert await holder.acquire()

    async def work(number):
        async with AsyncLock(client, "market", timeout=60, sleep=30):
            order.append(number)

    tasks = []
    for number in range(3):
        tasks.append(asyncio.create_task(work(number)))
        await asyncio.to_thread(eventually, lambda: bare.watcher.calls("SET") >= number + 2)
    await holder.release()
    await asyncio.wait_for(asyncio.gather(*tasks), 10)
    assert order == [0, 1, 2]
    await client.aclose()
    await client.connection_pool.disconnect()


def counting(connection_class):
    """Each call of it is a round trip: the reply is awaited before the next."""
    class Counting(connection_class):
        round_trips = 0

        def send_packed_command(self, *args, **options):
            Counting.round_trips += 1
            return super().send_packed_command(*args, **options)

    return Counting


ROUND_TRIPS = {"reacquire": 1, "owned": 1, "release": 1}


def test_a_release_and_a_renewal_take_one_round_trip_each(bare):
    connection = counting(redis.Connection)
    client = redis.Redis(connection_pool=redis.ConnectionPool(connection, port=bare.port))
    lock = Lock(client, "market", timeout=10)
    for _ in range(2):
        assert lock.acquire()
        taken = {}
        for what in ROUND_TRIPS:
            before = connection.round_trips
            getattr(lock, what)()
            taken[what] = connection.round_trips - before
        assert taken == ROUND_TRIPS and not bare.watcher.db.exists("market")
    client.close()
    client.connection_pool.disconnect()


async def test_a_release_and_a_renewal_of_a_task_take_one_round_trip_each(bare):
    connection = counting(redis.asyncio.Connection)
    client = redis.asyncio.Redis(connection_pool=redis.asyncio.ConnectionPool(connection, port=bare.port))
    lock = AsyncLock(client, "market", timeout=10)
    for _ in range(2):
        assert await lock.acquire()
        taken = {}
        for what in ROUND_TRIPS:
            before = connection.round_trips
            await getattr(lock, what)()
            taken[what] = connection.round_trips - before
        assert taken == ROUND_TRIPS and not bare.watcher.db.exists("market")
    await client.aclose()
    await client.connection_pool.disconnect()


def test_a_crowd_of_threads_leaves_connections_to_those_who_hold(bare):
    client, errors, served = redis.Redis(port=bare.port, max_connections=8), [], []

    def work():
        try:
            for _ in range(5):
                with Lock(client, "market", timeout=20):
                    served.append(True)
        except redis.RedisError as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and len(served) == 300
    client.close()


async def test_a_crowd_of_tasks_leaves_connections_to_those_who_hold(bare):
    client = redis.asyncio.Redis(port=bare.port, max_connections=8)

    async def work():
        async with AsyncLock(client, "market", timeout=20):
            await asyncio.sleep(0)

    await asyncio.wait_for(asyncio.gather(*(work() for _ in range(300))), 60)
    await client.aclose()


def test_redis_py_excludes_us_and_the_other_way_round(client):
    theirs, ours = client.lock("market", timeout=10), Lock(client, "market", timeout=10)
    assert theirs.acquire() and not ours.acquire(blocking=False)
    theirs.release()
    assert ours.acquire() and not theirs.acquire(blocking=False)
    ours.release()


def test_what_only_the_module_can_do_is_named(client):
    for options, what in (({"shared": True}, "shared=True"), ({"limit": 2}, "limit"), ({"queue": True}, "queue=True"),
                          ({"require_module": True}, "require_module=True")):
        with pytest.raises(ModuleMissingError, match=f"^{what} needs the redis-lock module.*loadmodule"):
            Lock(client, "market", timeout=10, **options).acquire()
    with pytest.raises(ModuleMissingError, match="several keys"):
        Lock(client, ["market", "bazaar"], timeout=10).acquire()
    assert issubclass(ModuleMissingError, LockError)


@pytest.mark.parametrize("words", ["unknown command '{}', with args beginning with: ", "unknown command `{}`",
                                   "Command is not available: '{}'. See the documentation", "ERR unknown command '{}'",
                                   "{} command doesn't exist in Redis commands"])
def test_it_is_known_by_the_words_of_every_server(words):
    for command in ("LOCK.ACQUIRE", "lock.acquire"):
        assert _errors.misses_the_module(redis.ResponseError(words.format(command)))
    assert not _errors.misses_the_module(redis.ResponseError(words.format("JSON.SET")))


@pytest.mark.parametrize("lost", [b"NX", b"DEL"], ids=["grant", "release"])
def test_a_lost_reply_is_no_loss(bare, lost):
    from conftest import Proxy

    proxy = Proxy(bare.port)
    client = redis.Redis(port=proxy.port, socket_timeout=5)
    lock = Lock(client, "market", timeout=10)
    for _ in range(3):
        with lock:
            assert client.get("market") == lock.local.token
            proxy.loses = lost
        assert not bare.watcher.db.exists("market") or lost == b"NX"
    assert proxy.lost == (2 if lost == b"NX" else 3)
    client.close()
    proxy.close()


def test_a_hold_of_either_way_is_used_in_the_other(loadable, monkeypatch):
    monkeypatch.setattr(_server, "FORGETS_AFTER", 0.2)
    client, db = redis.Redis(port=loadable.port), loadable.watcher.db
    lock = Lock(client, "market", timeout=10)
    for change, back in ((load, unload), (unload, load)):
        assert lock.acquire() and (lock.fence is None) == (change is load)
        change(loadable)
        time.sleep(0.3)
        assert lock.owned() and lock.reacquire() and lock.guard("SET", "price", 5) is True
        assert not Lock(client, "market", timeout=10).acquire(blocking=False)
        lock.release()
        assert not db.exists("market")
    client.close()


def test_who_waits_while_the_module_comes_and_goes_is_served(loadable, monkeypatch):
    monkeypatch.setattr(_server, "FORGETS_AFTER", 0.2)
    client, db = redis.Redis(port=loadable.port), loadable.watcher.db
    holder = Lock(client, "market", timeout=60)
    for change in (load, unload):
        assert holder.acquire()
        lock = Lock(client, "market", timeout=10, thread_local=False)
        thread = threading.Thread(target=lock.acquire, daemon=True)
        thread.start()
        time.sleep(0.3)
        change(loadable)
        time.sleep(0.3)
        holder.release()
        thread.join(20)
        assert not thread.is_alive() and lock.owned() and (lock.fence is None) == (change is unload)
        lock.release()
    assert not db.exists("market")
    client.close()


def add(port, rounds, always_bare, results):
    """Adds to a number by reading it and writing it: two at a time would lose an addition."""
    _server.FORGETS_AFTER = 0.1
    if always_bare:
        _server.Server.is_bare = lambda self: True
    client, fences = redis.Redis(port=port, socket_timeout=20), 0
    lock = Lock(client, "market", timeout=30)
    try:
        for _ in range(rounds):
            with lock as hold:
                fences += hold.fence is not None
                client.set("number", int(client.get("number") or 0) + 1)
        results.put((fences, None))
    except Exception as error:
        results.put((fences, repr(error)))


def test_half_a_fleet_is_without_while_the_module_comes_and_goes_and_nothing_is_lost(loadable):
    spawn = multiprocessing.get_context("spawn")
    results, each = spawn.Queue(), ROUNDS // 4
    fleet = [spawn.Process(target=add, args=(loadable.port, each, always_bare, results), daemon=True)
             for always_bare in (False, True) * 2]
    for process in fleet:
        process.start()
    changes = 0
    while any(process.is_alive() for process in fleet):
        (unload if changes % 2 else load)(loadable)
        changes += 1
        time.sleep(0.25)
    reports = [results.get(timeout=60) for _ in fleet]
    assert not [error for _, error in reports if error]
    assert int(loadable.watcher.db.get("number")) == 4 * each and changes > 2
    assert 0 < sum(fences for fences, _ in reports) < 2 * each


def test_a_task_that_is_cancelled_while_it_waits_leaves_nothing(bare):
    async def main():
        client = redis.asyncio.Redis(port=bare.port)
        bare.watcher.db.set("market", "ann", px=60_000)
        task = asyncio.create_task(AsyncLock(client, "market", timeout=10).acquire())
        await asyncio.sleep(0.5)
        began = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 1.5
        bare.watcher.db.delete("market")
        await asyncio.sleep(0.5)
        assert not bare.watcher.db.exists("market")
        await client.aclose()

    asyncio.run(main())
