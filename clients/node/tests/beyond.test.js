"use strict";

// What the module gives beyond: the order, the number, the guard, shares, several locks at once, the signal of a loss.

const assert = require("node:assert/strict");
const { after, before, beforeEach, describe, it } = require("node:test");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");
const { default: Redlock } = require("redlock-5");
const { Semaphore: Theirs } = require("redis-semaphore");
const { DeadlockError, LostLockError, Mutex, redlockScripts, Semaphore } = require("redis-lock-module");
const { CLIENTS } = require("./clients");
const { eventually, Server } = require("./server");
const { Watcher } = require("./watcher");

const FOR_LONG = { acquireTimeout: 20_000 };

describe("beyond", { concurrency: true }, () => {
  for (const name of Object.keys(CLIENTS)) describe(name, { concurrency: 1 }, () => whatItGives(name));
});

function whatItGives(name) {
  let server, watcher, connection, client;
  const mutex = (key = "market", options = FOR_LONG) => new Mutex(client, key, options);
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

  it("tasks that share the connection are served in order, and it is of use meanwhile", async () => {
    const TASKS = 50, served = [], first = mutex();
    await first.acquire();
    const all = [];
    for (let number = 0; number < TASKS; number++) {
      all.push((async () => {
        const lock = mutex();
        await lock.acquire();
        served.push(number);
        await lock.release();
      })());
    }
    await watcher.waitForWaiters(TASKS);
    await eventually(async () => (await watcher.ask("PUBSUB", "CHANNELS", "*")).length === 1);
    await sleep(50);
    await watcher.ask("CONFIG", "RESETSTAT");
    const began = performance.now();
    assert.equal(await connection.ask("PING"), "PONG");
    assert(performance.now() - began < 5_000);
    await first.release();
    await Promise.all(all);
    assert.deepEqual(served, [...Array(TASKS).keys()]);
    const asked = await watcher.counter("commandstats", "cmdstat_lock.acquire");
    assert(asked < 5 * TASKS, `${asked} requests`); // no request asks in a loop, with a retryInterval of 10 ms
    await watcher.nothingIsLeft();
  });

  it("the connection that listens is closed when no request waits", async () => {
    const first = mutex(), second = mutex();
    await first.acquire();
    const waiting = second.acquire();
    await eventually(async () => (await watcher.ask("PUBSUB", "CHANNELS", "*")).length === 1);
    await first.release();
    await waiting;
    await second.release();
    await eventually(async () => (await watcher.ask("PUBSUB", "CHANNELS", "*")).length === 0);
  });

  it("each hold has a larger number than those before it", async () => {
    const one = mutex(), other = mutex();
    assert.equal(one.fence, undefined);
    await one.acquire();
    const { fence } = one;
    assert(fence > 0 && Number.isSafeInteger(fence));
    const taken = new Mutex(client, "market", { identifier: one.identifier, acquiredExternally: true });
    await taken.acquire();
    assert.equal(taken.fence, fence);
    taken.stopRefresh();
    await one.release();
    assert.equal(one.fence, undefined);
    await other.acquire();
    assert(other.fence > fence);
    await other.release();
  });

  it("a guarded command runs only while the lock is held", async () => {
    const lock = mutex("market", { ...FOR_LONG, onLockLost() {} });
    await assert.rejects(lock.guard("SET", "price", 4), LostLockError);
    await lock.acquire();
    assert.equal(await lock.guard("SET", "price", 5), "OK");
    assert.equal(+await lock.guard("INCRBY", "price", 2), 7);
    await assert.rejects(lock.guard("LPUSH", "price", 2), /WRONGTYPE/);
    assert.equal(lock.isAcquired, true);
    await watcher.ask("LOCK.BREAK", "mutex:market");
    await assert.rejects(lock.guard("SET", "price", 6), LostLockError);
    assert.equal(lock.isAcquired, false);
    assert.equal(await watcher.ask("GET", "price"), "7");
  });

  it("readers share it, and a writer waits for them", async () => {
    const readers = [1, 2].map(() => mutex("market", { ...FOR_LONG, shared: true })), writer = mutex();
    for (const reader of readers) await reader.acquire();
    const writing = writer.acquire();
    await watcher.waitForWaiters(1);
    for (const reader of readers) await reader.release();
    await writing;
    assert.equal(await mutex("market", { shared: true, acquireAttemptsLimit: 1 }).tryAcquire(), false);
    await writer.release();
    assert.equal(writer.lost.aborted, false);
  });

  it("several are held together, or none", async () => {
    const one = mutex("two"), both = mutex(["one", "two"]);
    await one.acquire();
    const waiting = both.acquire();
    await watcher.waitForWaiters(1, "mutex:one");
    assert.equal(await watcher.ask("EXISTS", "mutex:one"), 0);
    await one.release();
    await waiting;
    assert.equal(await watcher.ask("EXISTS", "mutex:one", "mutex:two"), 2);
    assert.equal(await both.guard("SET", "price", 5), "OK");
    await both.release();
    assert.equal(both.lost.aborted, false);
    assert.equal(await watcher.ask("EXISTS", "mutex:one", "mutex:two"), 0);
  });

  it("each task that shares a semaphore has a permit of its own", async () => {
    const semaphore = new Semaphore(client, "market", 2, FOR_LONG);
    await Promise.all([semaphore.acquire(), semaphore.acquire()]);
    assert.equal(await new Semaphore(client, "market", 2, { acquireAttemptsLimit: 1 }).tryAcquire(), false);
    await semaphore.release();
    assert.equal(semaphore.isAcquired, true);
    assert.equal((await watcher.info("semaphore:market")).count, 1);
    await semaphore.release();
    assert.equal(semaphore.isAcquired, false);
    await watcher.nothingIsLeft(0, "semaphore:market");
  });

  it("the signal of a loss stops the work", async () => {
    const lock = mutex("market", { lockTimeout: 600, onLockLost() {} });
    await lock.acquire();
    const { lost } = lock;
    assert.equal(lost.aborted, false);
    await watcher.ask("LOCK.BREAK", "mutex:market");
    await assert.rejects(sleep(10_000, undefined, { signal: lost }), { name: "AbortError" });
    assert(lost.reason instanceof LostLockError);
    await lock.acquire();
    assert.notEqual(lock.lost, lost);
    await lock.release();
    assert.equal(lock.lost.aborted, false);
  });

  it("a release that comes too late is known by the signal", async () => {
    const lock = mutex("market", { refreshInterval: 0 });
    await lock.acquire();
    await watcher.ask("LOCK.BREAK", "mutex:market");
    assert.equal(lock.isAcquired, true);
    await lock.release();
    assert.equal(lock.lost.aborted, true);
  });

  it("a hold that is not renewed is over when its time is, and nothing is called", async () => {
    const lock = mutex("market", { lockTimeout: 500, refreshInterval: 0, onLockLost: () => assert.fail() });
    await lock.acquire();
    await eventually(() => lock.lost.aborted);
    assert.equal(lock.isAcquired, false);
    await eventually(async () => await watcher.info() === null);
    await lock.release();
    assert.equal(lock.lost.aborted, true);
  });

  it("a server that can't be reached loses the lock in time", async () => {
    const told = new Promise((resolve) => {
      const lock = mutex("market", { lockTimeout: 600, onLockLost: resolve });
      lock.acquire().then(() => watcher.ask("CLIENT", "PAUSE", 4_000, "ALL"));
    });
    const began = performance.now();
    assert(await told instanceof LostLockError);
    assert(performance.now() - began < 3_800);
    await watcher.nothingIsLeft(6_000);
  });

  it("a request that would wait for its own owner is refused", async () => {
    const work = (key, identifier) => mutex(key, { ...FOR_LONG, identifier });
    const held = [work("x", "ann"), work("y", "ben")];
    for (const lock of held) await lock.acquire();
    const waiting = work("x", "ben");
    const waits = waiting.acquire();
    await watcher.waitForWaiters(1, "mutex:x");
    await assert.rejects(work("y", "ann").acquire(), DeadlockError);
    await held[0].release();
    await waits;
    for (const lock of [waiting, held[1]]) await lock.release();
  });

  it("a request does not wait while that is not possible, and asks again then", async () => {
    const first = mutex(), second = mutex();
    await first.acquire();
    const waiting = second.acquire();
    await watcher.waitForWaiters(1);
    await watcher.ask("CONFIG", "SET", "lock.drain", "yes");
    await watcher.waitForWaiters(0);
    await watcher.ask("CONFIG", "SET", "lock.drain", "no");
    await watcher.waitForWaiters(1);
    await first.release();
    await waiting;
    await second.release();
  });

  it("waiters outlive their connections", async () => {
    const first = mutex(), second = mutex();
    await first.acquire();
    const waiting = second.acquire();
    await watcher.waitForWaiters(1);
    await watcher.ask("CLIENT", "KILL", "TYPE", "pubsub");
    await watcher.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await sleep(100);
    await first.release();
    await waiting;
    await second.release();
    assert.equal(second.lost.aborted, false);
    await watcher.nothingIsLeft();
  });
}

let server, watcher;
before(async () => {
  server = await Server.start();
  watcher = new Watcher(server);
});
after(() => server.stop());
beforeEach(() => watcher.clean());

for (const name of ["ioredis-4", "ioredis", ...CLIENTS["ioredis 6"] ? ["ioredis-6"] : []]) {
  it(`${name}: keyPrefix is that of the lock, and of what is guarded`, async () => {
    const client = new (require(name))({ port: server.port, keyPrefix: "app:", enableAutoPipelining: true });
    const lock = new Mutex(client, ["one", "two"]), other = new Mutex(client, "two", FOR_LONG);
    await lock.acquire();
    const waiting = other.acquire();
    await watcher.waitForWaiters(1, "app:mutex:two");
    await lock.guard("MSET", "price", 5, "stock", 6);
    assert.deepEqual((await watcher.ask("KEYS", "*")).sort(),
      ["app:mutex:one", "app:mutex:two", "app:price", "app:stock"]);
    await lock.release();
    await waiting;
    await other.release();
    client.disconnect();
  });
}

it("redlock 5 takes its locks by our scripts", async () => {
  const client = new Redis({ port: server.port }), redlock = new Redlock([client], { retryCount: 0 }, redlockScripts);
  const mutex = new Mutex(client, "one", { acquireAttemptsLimit: 1 });
  const lock = await redlock.acquire(["mutex:one", "mutex:two"], 5_000);
  assert.equal(await mutex.tryAcquire(), false);
  assert.equal(await watcher.ask("GET", "mutex:two"), lock.value);
  const longer = await lock.extend(60_000);
  assert(await watcher.ask("PTTL", "mutex:one") > 50_000);
  await assert.rejects(redlock.acquire(["mutex:two"], 5_000), { name: "ExecutionError" });
  await longer.release();
  assert.equal(await mutex.tryAcquire(), true);
  await assert.rejects(redlock.acquire(["mutex:two", "mutex:one"], 5_000), { name: "ExecutionError" });
  assert.equal(await watcher.ask("EXISTS", "mutex:two"), 0);
  await mutex.release();
  for (const command of ["macquire", "mrenew", "mrelease"]) {
    assert(await watcher.counter("commandstats", `cmdstat_lock.${command}`) > 0);
  }
  client.disconnect();
});

it("redis-semaphore's own Semaphore does not see ours, nor we it: on one key they would spoil each other", async (test) => {
  const client = new Redis({ port: server.port });
  const make = (Kind, key) => new Kind(client, key, 1, { lockTimeout: 30_000, acquireAttemptsLimit: 1 });
  const theirs = [make(Theirs, "theirs"), make(Theirs, "ours")];
  const ours = [make(Semaphore, "theirs"), new Semaphore(client, "ours", 3, { lockTimeout: 60_000 })];
  test.after(() => {
    for (const lock of [...theirs, ours[1]]) lock.stopRefresh();
    client.disconnect();
  });
  await theirs[0].acquire();
  await assert.rejects(ours[0].acquire(), /WRONGTYPE/);
  await ours[1].acquire();
  assert(await watcher.ask("PTTL", "semaphore:ours") > 30_000);
  theirs[1]._limit = 3; // the set has two members: our hold, and what says that it is a lock
  assert.equal(await theirs[1].tryAcquire(), true);
  assert(await watcher.ask("PTTL", "semaphore:ours") <= 30_000);
  // Its score is the time of its grant, which to us is its end: in that very millisecond it still counts.
  await eventually(async () => (await watcher.info("semaphore:ours")).count === 1);
});

it("a client that may not subscribe asks now and then", async () => {
  await watcher.ask("ACL", "SETUSER", "quiet", "on", ">secret", "~*", "+@all", "resetchannels");
  const clients = [
    new Redis({ port: server.port, username: "quiet", password: "secret" }),
    await require("redis-5").createClient({ socket: { port: server.port }, username: "quiet", password: "secret" }).connect(),
  ];
  for (const client of clients) {
    const first = new Mutex(client, "market"), second = new Mutex(client, "market", FOR_LONG);
    await first.acquire();
    const waiting = second.acquire();
    await watcher.waitForWaiters(1);
    await sleep(100);
    await first.release();
    await waiting;
    await second.release();
  }
  clients[0].disconnect();
  clients[1].destroy();
});

it("a process of which the client is closed ends at once", async () => {
  const client = new Redis({ port: server.port });
  const first = new Mutex(client, "market"), second = new Mutex(client, "market", { acquireTimeout: Infinity });
  await first.acquire();
  const waiting = second.acquire();
  await watcher.waitForWaiters(1);
  client.disconnect();
  await assert.rejects(waiting, /closed/i);
});
