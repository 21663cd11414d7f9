"""Clients of a cluster, while its slots move and its connections break."""

import asyncio
import threading

import pytest
import pytest_asyncio
import redis
import redis.asyncio
from conftest import eventually
from redis.crc import key_slot
from redis.exceptions import RedisClusterException
from redis_lock_module import Lock
from redis_lock_module.asyncio import Lock as AsyncLock

NAME, OTHER = "{market}:lock", "{market}:other"
SLOT = key_slot(NAME.encode())


@pytest.fixture
def cluster(start_server):
    """Two masters: the first has the slot of the lock, and half of all."""
    nodes = [start_server("cluster-enabled yes") for _ in range(2)]
    half = (0, 8191), (8192, 16383)
    mine = 0 if SLOT <= 8191 else 1
    for node, slots in zip(nodes, (half[mine], half[1 - mine])):
        node.watcher.command("CLUSTER", "ADDSLOTSRANGE", *slots)
        node.id = node.watcher.db.execute_command("CLUSTER", "MYID")
    nodes[0].watcher.command("CLUSTER", "MEET", "127.0.0.1", nodes[1].port)
    eventually(lambda: all(node.watcher.db.cluster("INFO")["cluster_state"] == "ok" and
                           node.watcher.db.cluster("INFO")["cluster_known_nodes"] == "2" for node in nodes))
    return nodes


@pytest.fixture
def client(cluster):
    client = redis.RedisCluster(host="127.0.0.1", port=cluster[1].port, socket_timeout=5)
    yield client
    client.close()


@pytest_asyncio.fixture
async def aclient(cluster):
    client = redis.asyncio.RedisCluster(host="127.0.0.1", port=cluster[1].port, socket_timeout=5)
    yield client
    await client.aclose()


def move_the_slot(cluster):
    source, target = cluster
    target.watcher.command("CLUSTER", "SETSLOT", SLOT, "IMPORTING", source.id)
    source.watcher.command("CLUSTER", "SETSLOT", SLOT, "MIGRATING", target.id)
    keys = source.watcher.command("CLUSTER", "GETKEYSINSLOT", SLOT, 10)
    if keys:
        source.watcher.command("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *keys)
    for node in (target, source):
        node.watcher.command("CLUSTER", "SETSLOT", SLOT, "NODE", target.id)


def break_the_connections(cluster):
    for node in cluster:
        node.watcher.db.client_kill_filter(_type="normal", skipme=True)


def waits_anew(cluster, first):
    def waits():
        return any(waiter["client"] != first or node is cluster[1]
                   for node in cluster for waiter in waiters(node))

    eventually(waits)


def waiters(node):
    try:
        return (node.watcher.info(NAME) or {}).get("waiters", [])
    except redis.ResponseError:
        return []  # it has moved


@pytest.mark.parametrize("happens", [break_the_connections, move_the_slot], ids=["broken", "moved"])
def test_a_waiter_is_served_whatever_happens_to_its_connection_or_its_slot(cluster, client, happens):
    holder, waiter = (client.lock(NAME, timeout=60, thread_local=False, lock_class=Lock) for _ in range(2))
    assert holder.acquire() and holder.guard("SET", "{market}:price", 5)
    served = []
    thread = threading.Thread(target=lambda: served.append(waiter.acquire(blocking_timeout=60)), daemon=True)
    thread.start()
    eventually(lambda: waiters(cluster[0]))
    first = waiters(cluster[0])[0]["client"]
    happens(cluster)
    waits_anew(cluster, first)
    assert holder.owned() and holder.extend(10)
    holder.release()
    thread.join(20)
    assert served == [True] and waiter.owned()
    waiter.release()
    assert not waiter.locked()


@pytest.mark.parametrize("happens", [break_the_connections, move_the_slot], ids=["broken", "moved"])
async def test_a_task_that_waits_is_served_whatever_happens_to_its_connection_or_its_slot(cluster, aclient, happens):
    holder, waiter = (aclient.lock(NAME, timeout=60, lock_class=AsyncLock) for _ in range(2))
    assert await holder.acquire() and await holder.guard("SET", "{market}:price", 5)
    task = asyncio.create_task(waiter.acquire(blocking_timeout=60))
    await asyncio.to_thread(eventually, lambda: waiters(cluster[0]))
    first = waiters(cluster[0])[0]["client"]
    happens(cluster)
    await asyncio.to_thread(waits_anew, cluster, first)
    assert await holder.owned() and await holder.extend(10)
    await holder.release()
    assert await asyncio.wait_for(task, 20) and await waiter.owned()
    await waiter.release()
    assert not await waiter.locked()


def test_several_locks_of_one_slot_are_held_together(cluster, client):
    with Lock(client, [NAME, OTHER], timeout=10) as both:
        assert both.owned() and not Lock(client, OTHER, timeout=10).acquire(blocking_timeout=0.05)
    assert not both.locked()
    with pytest.raises((redis.RedisError, RedisClusterException)):
        Lock(client, ["here", "there"], timeout=10).acquire()


async def test_a_task_that_is_cancelled_leaves_nothing_in_a_cluster(cluster, aclient):
    holder = AsyncLock(aclient, NAME, timeout=60)
    assert await holder.acquire()
    for _ in range(5):
        task = asyncio.create_task(AsyncLock(aclient, NAME, timeout=60).acquire())
        await asyncio.to_thread(eventually, lambda: waiters(cluster[0]))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not waiters(cluster[0])
    await holder.release()
    assert cluster[0].watcher.info(NAME) is None
