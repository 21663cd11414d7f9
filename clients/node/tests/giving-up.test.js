"use strict";

// A request that is given up leaves nothing behind, whenever that is. The server is the judge.

const assert = require("node:assert/strict");
const { fork } = require("node:child_process");
const { after, before, beforeEach, describe, it } = require("node:test");
const { join } = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");
const { Mutex, Semaphore } = require("redis-lock-module");
const { CLIENTS } = require("./clients");
const { eventually, Server } = require("./server");
const { Watcher } = require("./watcher");

const TIMES = +(process.env.TIMES ?? 1_000), KILLS = +(process.env.KILLS ?? 20);
const WORKERS = 20, TTL = 5_000, WAIT = { lockTimeout: TTL, acquireTimeout: 20_000 };

// One that can't have a connection of its own.
const withoutDuplicates = (client) =>
  client.call ? Object.create(client, { duplicate: { value: undefined } })
    : { sendCommand: (words) => client.sendCommand(words) };

const KINDS = {
  "alone": (client) => new Mutex(client, "market", WAIT),
  "shared": (client) => new Mutex(client, "market", { ...WAIT, shared: true }),
  "with another": (client) => new Mutex(client, ["market", "other"], WAIT),
};

async function cancelAtRandomMoments(watcher, client, kinds, longest) {
  let held = 0, cancelled = 0;
  await Promise.all(Array.from({ length: WORKERS }, async () => {
    for (let time = 0; time < TIMES / WORKERS; time++) {
      const cancel = new AbortController();
      const timer = setTimeout(() => cancel.abort(), Math.random() * longest);
      const lock = KINDS[kinds[Math.floor(Math.random() * kinds.length)]](client);
      try {
        await lock.acquire(cancel.signal);
        held++;
        await sleep(Math.random() * 3);
        await lock.release();
      } catch (error) {
        if (error.name !== "AbortError") throw error;
        cancelled++;
      } finally {
        clearTimeout(timer);
      }
    }
  }));
  await watcher.nothingIsLeft();
  await watcher.nothingIsLeft(0, "mutex:other");
  assert(held > 0 && cancelled > TIMES / 10, `${held} held it, ${cancelled} were cancelled`);
}

describe("giving up", { concurrency: true }, () => {
  for (const name of ["ioredis 5", "node-redis 5", "node-redis 4"]) {
    describe(name, { concurrency: 1 }, () => whoGivesUpLeavesNothing(name));
  }
});

it("processes that are killed leave nothing beyond a ttl or a lease", killProcesses);

function whoGivesUpLeavesNothing(name) {
  let server, watcher, connection, client;
  before(async () => {
    server = await Server.start();
    watcher = new Watcher(server);
    connection = await CLIENTS[name].connect(server.port);
    client = connection.client;
  });
  after(async () => {
    await connection.close();
    await server.stop();
  });
  beforeEach(() => watcher.clean());

  it("requests that are cancelled leave nothing", () => cancelAtRandomMoments(watcher, client, ["alone"], 40));
  it("requests of all kinds that are cancelled leave nothing", () =>
    cancelAtRandomMoments(watcher, client, Object.keys(KINDS), 40));
  it("requests that ask now and then, and are cancelled, leave nothing", () =>
    cancelAtRandomMoments(watcher, withoutDuplicates(client), Object.keys(KINDS), 60));

  it("requests of clients whose connections break leave nothing", async () => {
    let done = false;
    const breaking = (async () => {
      for (; !done; await sleep(20 + Math.random() * 40)) {
        await watcher.ask("CLIENT", "KILL", "TYPE", Math.random() < 0.5 ? "normal" : "pubsub");
      }
    })();
    await Promise.all(Array.from({ length: WORKERS }, async () => {
      for (let time = 0; time < TIMES / 10 / WORKERS; time++) {
        const lock = new Mutex(client, "market", { lockTimeout: 1_000, acquireTimeout: Math.random() * 200 });
        try {
          if (!await lock.tryAcquire()) continue;
          await sleep(Math.random() * 3);
          await lock.release();
        } catch {
          // its connection broke more often than it is asked again
        }
      }
    }));
    done = true;
    await breaking;
    await watcher.nothingIsLeft(6_000); // what was said last may never be read: a ttl, or a lease
    assert(await watcher.ask("LOCK.ACQUIRE", "mutex:market", "next", 1_000), "it waits for an owner that has gone");
  });

  it("a wait that is cancelled is over at once", async () => {
    const holder = new Mutex(client, "market"), waiter = new Mutex(client, "market", { acquireTimeout: Infinity });
    await holder.acquire();
    for (let time = 0; time < 10; time++) {
      const cancel = new AbortController();
      const waiting = waiter.acquire(cancel.signal);
      await watcher.waitForWaiters(1);
      cancel.abort();
      await assert.rejects(waiting, { name: "AbortError" });
      assert.equal(await watcher.waiters(), 0);
    }
    await holder.release();
    await watcher.nothingIsLeft();
  });

  it("a wait whose time is up leaves no place", async () => {
    const holder = new Mutex(client, "market");
    await holder.acquire();
    const waiters = Array.from({ length: 50 }, () => new Mutex(client, "market", { acquireTimeout: Math.random() * 300 }));
    assert(!(await Promise.all(waiters.map((waiter) => waiter.tryAcquire()))).some(Boolean));
    assert.equal(await watcher.waiters(), 0);
    await holder.release();
    await watcher.nothingIsLeft();
  });

  it("a server that does not answer holds up no request that is given up", async () => {
    await watcher.ask("CLIENT", "PAUSE", 4_000, "ALL");
    const cancel = new AbortController(), began = performance.now();
    setTimeout(() => cancel.abort(), 50);
    const cancelled = assert.rejects(new Mutex(client, "market").acquire(cancel.signal), { name: "AbortError" });
    const timed = new Mutex(client, "market", { acquireTimeout: 100 }).tryAcquire();
    await cancelled;
    assert.equal(await timed, false);
    assert(performance.now() - began < 3_800);
    await watcher.nothingIsLeft(5_000);
  });

  it("a lock of which one hears too late is given back", async () => {
    await watcher.ask("CLIENT", "PAUSE", 300, "ALL");
    assert.equal(await new Mutex(client, "market", { lockTimeout: 200, acquireAttemptsLimit: 1 }).tryAcquire(), false);
    await watcher.nothingIsLeft(100);
    const lost = new Mutex(client, "market", { lockTimeout: 10_000, acquireAttemptsLimit: 1 });
    assert.equal(await lost.tryAcquire(), true);
    await lost.release();
  });

  it("a semaphore that is cancelled leaves no permit", async () => {
    await Promise.all(Array.from({ length: 100 }, async () => {
      const semaphore = new Semaphore(client, "market", 3, WAIT);
      try {
        await semaphore.acquire(AbortSignal.timeout(1 + Math.floor(Math.random() * 60)));
        await sleep(2);
        await semaphore.release();
      } catch (error) {
        assert.equal(error.name, "TimeoutError");
      }
    }));
    await watcher.nothingIsLeft(500, "semaphore:market");
  });
}

async function killProcesses() {
  const AT_ONCE = 5, KEYS = ["one", "two", "three", "four"], ttl = 1_000, lease = 5_000;
  const server = await Server.start(), watcher = new Watcher(server);

  async function round(key, name) {
    const before = +await watcher.ask("GET", `number:${key}`);
    const children = Array.from({ length: AT_ONCE }, () => fork(join(__dirname, "worker.js"), [
      "ours", name, server.port, 60_000, key, JSON.stringify({ lockTimeout: ttl, acquireTimeout: 60_000 }),
    ]));
    try {
      // Twenty processes at once take a while to start on a busy machine.
      await eventually(async () => await watcher.ask("GET", `number:${key}`) > before + 10 * AT_ONCE, "none works", 60_000);
      await sleep(Math.random() * 50);
    } finally {
      for (const child of children) child.kill("SIGKILL");
    }
    const began = performance.now();
    const ear = new Redis({ port: server.port }), next = `next of ${key}`;
    let fence, waited;
    try {
      fence = await ear.call("LOCK.ACQUIRE", `mutex:${key}`, next, 5_000, "BLOCK", 30_000);
      waited = performance.now() - began;
      await ear.call("LOCK.RELEASE", `mutex:${key}`, next);
    } finally {
      ear.disconnect();
    }
    assert(fence && waited < Math.max(ttl, lease) + 500, `waited for ${waited} ms`);
    return waited;
  }

  try {
    for (let time = 0; time < KILLS / AT_ONCE / KEYS.length; time++) {
      await Promise.all(KEYS.map((key, at) => round(key, at % 2 ? "node-redis 5" : "ioredis 5")));
    }
    for (const key of KEYS) await watcher.nothingIsLeft(2 * lease, `mutex:${key}`); // a server that was held up extends leases
  } finally {
    await server.stop();
  }
}
