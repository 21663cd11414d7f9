"""A lock that replicas have to acknowledge; and a limit that groups share."""

import signal
import time

import pytest
import redis
from conftest import eventually
from redis_lock_module import Lock, ModuleMissingError, _ear
from redis_lock_module.asyncio import Lock as AsyncLock


@pytest.fixture
def bare(start_server):
    return start_server("repl-diskless-sync-delay 0", module=False)


@pytest.fixture
def replica(start_server, bare):
    replica = start_server(f"replicaof 127.0.0.1 {bare.port}", module=False)
    eventually(lambda: bare.watcher.db.info("replication").get("slave0", {}).get("state") == "online")
    yield replica
    replica.process.send_signal(signal.SIGCONT)


def is_free(server, name="market"):
    return not server.watcher.db.exists(name)


@pytest.mark.parametrize("single", [False, True], ids=["pool", "single connection"])
def test_a_thread_holds_what_replicas_have(connect, bare, replica, single):
    client = connect(port=bare.port, single_connection_client=single)
    lock = Lock(client, "market", timeout=60, replicas=1)
    hold = lock.hold()
    assert replica.watcher.db.get("market") == bare.watcher.db.get("market")
    hold.renew(120)
    assert replica.watcher.db.ttl("market") > 60
    replica.process.send_signal(signal.SIGSTOP)
    with pytest.raises(redis.ResponseError, match="NOREPLICAS 0 of 1"):
        hold.renew(120)
    assert hold.held
    with pytest.raises(redis.ResponseError, match="NOREPLICAS 0 of 1"):
        Lock(client, "shop", timeout=60, replicas=1, blocking=False).acquire()
    eventually(lambda: is_free(bare, "shop"))
    hold.release()  # waits for no replica
    assert is_free(bare)
    assert client.ping() is True  # and every reply was read


async def test_a_task_holds_what_replicas_have(aconnect, bare, replica):
    client = aconnect(port=bare.port)
    lock = AsyncLock(client, "market", timeout=60, replicas=1)
    async with lock.hold() as hold:
        assert replica.watcher.db.get("market") == bare.watcher.db.get("market")
        await hold.renew(120)
        assert replica.watcher.db.ttl("market") > 60
        replica.process.send_signal(signal.SIGSTOP)
        with pytest.raises(redis.ResponseError, match="NOREPLICAS 0 of 1"):
            await hold.renew(120)
        assert hold.held
    assert is_free(bare)


@pytest.fixture
def queueing(start_server):
    master = start_server("repl-diskless-sync-delay 0")
    start_server(f"replicaof 127.0.0.1 {master.port}")
    eventually(lambda: master.watcher.db.info("replication").get("slave0", {}).get("state") == "online")
    return master


def test_a_place_of_a_thread_is_claimed_by_one_request(connect, queueing):
    lock = Lock(connect(port=queueing.port, single_connection_client=True), "market", timeout=60, replicas=1)
    for _ in range(3):
        lock.hold().release()
    assert queueing.watcher.db.info("lock")["lock_replicated_total"] == 3


async def test_a_place_of_a_task_is_claimed_by_one_request(aconnect, queueing):
    lock = AsyncLock(aconnect(port=queueing.port), "market", timeout=60, replicas=1, queue=True)
    for _ in range(3):
        await (await lock.hold()).release()
    assert queueing.watcher.db.info("lock")["lock_replicated_total"] == 3


def test_a_place_whose_claim_the_servers_own_number_of_replicas_acknowledge_ends_no_later_than_there(
        connect, queueing, monkeypatch):
    queueing.watcher.command("CONFIG", "SET", "lock.replicas", 1)
    monkeypatch.setattr(_ear.Ear, "listen", lambda *_: None)  # no message says that it is acknowledged
    hold = Lock(connect(port=queueing.port), "market", timeout=60, queue=True, sleep=2).hold()
    ends = time.monotonic() + queueing.watcher.db.pttl("market") / 1000
    assert hold._life.ends < ends + 0.5 and queueing.watcher.db.info("lock")["lock_replicated_total"] == 1


def test_after_too_few_acknowledgements_the_earlier_end_counts(connect, bare, replica):
    hold = Lock(connect(port=bare.port), "market", timeout=60, replicas=1).hold()
    replica.process.send_signal(signal.SIGSTOP)
    with pytest.raises(redis.ResponseError, match="NOREPLICAS"):
        hold.renew(0.05)
    eventually(lambda: not hold.held)


def test_a_user_who_may_not_wait_holds_nothing(connect, bare):
    bare.watcher.command("ACL", "SETUSER", "ann", "on", "nopass", "~*", "+@all", "-wait")
    client = connect(port=bare.port, username="ann", password="any")
    with pytest.raises(redis.ResponseError, match="NOREPLICAS WAIT is refused"):
        Lock(client, "market", timeout=60, replicas=1).acquire()
    eventually(lambda: is_free(bare))


def test_an_acquire_that_loses_does_not_fail_for_want_of_replicas(connect, bare):
    bare.watcher.db.set("market", "another")
    assert not Lock(connect(port=bare.port), "market", timeout=60, replicas=1, blocking=False).acquire()


@pytest.mark.parametrize("fair", ["ann", "Ännchen"])
def test_a_group_precedes_the_owner_that_the_caller_has_chosen_once(client, fair):
    lock = Lock(client, "market", timeout=10, limit=2, fair=fair)
    for token in ("job-7", f"{fair}:job-7"):
        assert lock._request(None, None, None, token).owner == f"{fair}:job-7".encode()


def test_without_the_module_there_is_no_fair_limit(connect, bare):
    with pytest.raises(ModuleMissingError, match="fair"):
        Lock(connect(port=bare.port), "market", timeout=10, limit=2, fair="ann").acquire()
