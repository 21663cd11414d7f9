"""Clients that ask a Sentinel who the master is, while that changes."""

import asyncio
import threading

import pytest
import redis
import redis.asyncio
from conftest import eventually
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from redis_lock_module import Lock
from redis_lock_module.asyncio import Lock as AsyncLock

RETRIES = 100  # a tenth of a second each


@pytest.fixture
def master_and_replica(start_server):
    master = start_server("repl-diskless-sync-delay 0")
    replica = start_server(f"replicaof 127.0.0.1 {master.port}")
    eventually(lambda: master.watcher.db.info("replication").get("slave0", {}).get("state") == "online")
    return master, replica


@pytest.fixture
def sentinel(start_server, master_and_replica):
    master, _ = master_and_replica
    sentinel = start_server(
        f"sentinel monitor market 127.0.0.1 {master.port} 1", "sentinel down-after-milliseconds market 500",
        "sentinel failover-timeout market 5000", sentinel=True)
    eventually(lambda: sentinel.watcher.db.sentinel_slaves("market")
               and not sentinel.watcher.db.sentinel_slaves("market")[0]["is_disconnected"])
    return sentinel


def fail_over(how, sentinel, master, replica):
    if how == "killed":
        master.kill()
    else:
        eventually(lambda: _asked(sentinel))
    eventually(lambda: replica.watcher.db.role()[0] == "master", within=40)


def _asked(sentinel):
    try:
        return sentinel.watcher.command("SENTINEL", "FAILOVER", "market")
    except redis.ResponseError:
        return False  # it has not found a good replica yet


@pytest.mark.parametrize("how", ["killed", "demoted"])
def test_a_waiter_is_served_by_the_next_master(sentinel, master_and_replica, how):
    master, replica = master_and_replica
    client = redis.Sentinel([("127.0.0.1", sentinel.port)], socket_timeout=1).master_for(
        "market", socket_timeout=5, retry=Retry(ConstantBackoff(0.1), RETRIES))
    holder = client.lock("market", timeout=120, lock_class=Lock)
    assert holder.acquire() and client.wait(1, 5_000) == 1
    fence, served = holder.fence, []
    waiter = client.lock("market", timeout=120, thread_local=False, lock_class=Lock)
    thread = threading.Thread(target=lambda: served.append(waiter.acquire(blocking_timeout=120)), daemon=True)
    thread.start()
    master.watcher.wait_for_waiters(1)
    fail_over(how, sentinel, master, replica)
    replica.watcher.wait_for_waiters(1)
    assert holder.owned() and not served
    holder.release()
    thread.join(20)
    assert served == [True] and waiter.fence > fence
    waiter.release()
    assert replica.watcher.info() is None


async def test_a_task_that_waits_is_served_by_the_next_master(sentinel, master_and_replica):
    master, replica = master_and_replica
    asks = redis.asyncio.Sentinel([("127.0.0.1", sentinel.port)], socket_timeout=1)
    client = asks.master_for("market", socket_timeout=5,
                             retry=redis.asyncio.retry.Retry(ConstantBackoff(0.1), RETRIES))
    holder = client.lock("market", timeout=120, lock_class=AsyncLock)
    assert await holder.acquire() and await client.wait(1, 5_000) == 1
    fence = holder.fence
    waiter = client.lock("market", timeout=120, lock_class=AsyncLock)
    task = asyncio.create_task(waiter.acquire(blocking_timeout=120))
    await asyncio.to_thread(master.watcher.wait_for_waiters, 1)
    await asyncio.to_thread(fail_over, "killed", sentinel, master, replica)
    await asyncio.to_thread(replica.watcher.wait_for_waiters, 1)
    assert await holder.owned() and not task.done()
    await holder.release()
    assert await asyncio.wait_for(task, 20) and waiter.fence > fence
    await waiter.release()
    assert replica.watcher.info() is None
    await client.aclose()
    await client.connection_pool.disconnect()
    for one in asks.sentinels:
        await one.aclose()
