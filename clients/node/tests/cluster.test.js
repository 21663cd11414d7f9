"use strict";

// Clients of a cluster, while its slots move and its connections break; and of a Sentinel, while the master changes.

const assert = require("node:assert/strict");
const { after, before, describe, it } = require("node:test");
const { Mutex } = require("redis-lock-module");
const { CLIENTS } = require("./clients");
const { eventually, Server } = require("./server");
const { Watcher } = require("./watcher");

const KEY = "{market}:lock", NAME = `mutex:${KEY}`;
const FOR_LONG = { lockTimeout: 60_000, acquireTimeout: 60_000 };

describe("several servers", { concurrency: true }, () => {
  describe("a cluster", { concurrency: 1 }, ofACluster);
  describe("a Sentinel", { concurrency: true }, ofASentinel);
});

function ofACluster() {
  let nodes, slot;
  before(async () => {
    nodes = await Promise.all([1, 2].map(() => Server.start(["--cluster-enabled", "yes"])));
    slot = await nodes[0].db.call("CLUSTER", "KEYSLOT", NAME);
    const halves = [[0, 8191], [8192, 16383]];
    if (slot > 8191) halves.reverse();
    for (const [at, node] of nodes.entries()) {
      node.watcher = new Watcher(node);
      node.id = await node.db.call("CLUSTER", "MYID");
      await node.db.call("CLUSTER", "ADDSLOTSRANGE", ...halves[at]);
    }
    await nodes[0].db.call("CLUSTER", "MEET", "127.0.0.1", nodes[1].port);
    await eventually(async () => (await Promise.all(nodes.map((node) => node.db.call("CLUSTER", "INFO"))))
      .every((info) => /cluster_state:ok/.test(info) && /cluster_known_nodes:2/.test(info)));
  });
  after(() => Promise.all(nodes.map((node) => node.stop())));

  const waiters = (node) => node.watcher.waiters(NAME).catch(() => 0); // an error: it has moved

  async function moveTheSlot() {
    const [source, target] = await waiters(nodes[0]) ? nodes : [nodes[1], nodes[0]];
    await target.db.call("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id);
    await source.db.call("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id);
    const keys = await source.db.call("CLUSTER", "GETKEYSINSLOT", slot, 10);
    if (keys.length) await source.db.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", ...keys);
    for (const node of [target, source]) await node.db.call("CLUSTER", "SETSLOT", slot, "NODE", target.id);
    await eventually(async () => await waiters(target) === 1);
  }

  const breakTheConnections = () =>
    Promise.all(nodes.map((node) => node.db.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")));

  for (const name of Object.keys(CLIENTS)) {
    it(`${name}: a waiter is served whatever happens to its connection or its slot`, async () => {
      const { client, close } = await CLIENTS[name].cluster(nodes.map(({ port }) => port));
      for (const happens of [() => {}, breakTheConnections, moveTheSlot]) {
        const holder = new Mutex(client, KEY, FOR_LONG), waiter = new Mutex(client, KEY, FOR_LONG);
        await holder.acquire();
        assert.equal(await holder.guard("SET", "{market}:price", 5), "OK");
        const waiting = waiter.acquire();
        await eventually(async () => await waiters(nodes[0]) + await waiters(nodes[1]) === 1);
        await happens();
        await holder.release();
        assert.equal(holder.lost.aborted, false);
        await waiting;
        const both = new Mutex(client, [KEY, "{market}:other"], { acquireAttemptsLimit: 1 });
        assert.equal(await both.tryAcquire(), false);
        await waiter.release();
        assert.equal(waiter.lost.aborted, false);
        assert.equal(await both.tryAcquire(), true);
        await both.release();
      }
      await assert.rejects(new Mutex(client, ["here", "there"]).acquire(), /CROSSSLOT/);
      await close();
    });

    it(`${name}: a request that is cancelled leaves nothing in a cluster`, async () => {
      const { client, close } = await CLIENTS[name].cluster(nodes.map(({ port }) => port));
      const holder = new Mutex(client, KEY, FOR_LONG);
      await holder.acquire();
      for (let time = 0; time < 5; time++) {
        const cancel = new AbortController(), waiting = new Mutex(client, KEY, FOR_LONG).acquire(cancel.signal);
        await eventually(async () => await waiters(nodes[0]) + await waiters(nodes[1]) === 1);
        cancel.abort();
        await assert.rejects(waiting, { name: "AbortError" });
        assert.equal(await waiters(nodes[0]) + await waiters(nodes[1]), 0);
      }
      await holder.release();
      await close();
    });
  }
}

function ofASentinel() {
  for (const name of ["ioredis 5", "node-redis 5"]) {
    it(`${name}: a waiter is served by the next master`, async () => {
      const master = await Server.start(["--repl-diskless-sync-delay", 0]);
      const replica = await Server.start(["--replicaof", `127.0.0.1 ${master.port}`]);
      await eventually(async () => /state=online/.test(await master.db.info("replication")));
      const sentinel = await Server.start([], {
        sentinel: true,
        config: `sentinel monitor market 127.0.0.1 ${master.port} 1\nsentinel down-after-milliseconds market 500\n` +
          "sentinel failover-timeout market 5000\n",
      });
      await eventually(async () => (await sentinel.db.call("SENTINEL", "REPLICAS", "market")).length > 0);
      const { client, close } = await CLIENTS[name].sentinel(sentinel.port, "market");
      const holder = new Mutex(client, "market", FOR_LONG), waiter = new Mutex(client, "market", FOR_LONG);
      await holder.acquire();
      const { fence } = holder, waiting = waiter.acquire();
      await new Watcher(master).waitForWaiters(1);
      assert.equal(await master.db.wait(1, 5_000), 1);
      await master.kill();
      await eventually(async () => (await replica.db.role())[0] === "master", "no failover", 30_000);
      await new Watcher(replica).waitForWaiters(1);
      await holder.release();
      assert.equal(holder.lost.aborted, false);
      await waiting;
      assert(waiter.fence > fence);
      await waiter.release();
      await new Watcher(replica).nothingIsLeft();
      await close();
      await Promise.all([master, replica, sentinel].map((server) => server.stop()));
    });
  }
}
