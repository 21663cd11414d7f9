"use strict";

// A hold that is over says so at the first look, and does nothing more by what its owner holds later.

const assert = require("node:assert/strict");
const { after, before, beforeEach, it, mock } = require("node:test");
const Redis = require("ioredis");
const { LostLockError, Mutex, Semaphore } = require("redis-lock-module");
const { Hold } = require("../lib/hold");
const { eventually, Server } = require("./server");
const { Watcher } = require("./watcher");

let server, watcher, client;
before(async () => {
  server = await Server.start();
  watcher = new Watcher(server);
  client = new Redis({ port: server.port });
});
after(async () => {
  client.disconnect();
  await server.stop();
});
beforeEach(() => watcher.clean());

// For the time of `work` it is later, and nothing else of this process has run meanwhile.
async function afterAPause(ms, work) {
  const { now } = performance, later = mock.method(performance, "now", () => now.call(performance) + ms);
  try {
    await work();
  } finally {
    later.mock.restore();
  }
}

for (const refreshInterval of [undefined, 0]) {
  const options = { lockTimeout: 60_000, refreshInterval, onLockLost() {} };
  it(`after a pause beyond its TTL the first look says that it is lost, ${refreshInterval ?? "renewed"}`, async () => {
    for (const [what, look] of Object.entries({
      isHeld: (hold) => !hold.isHeld,
      lost: (hold) => hold.lost.aborted,
      throwIfLost: (hold) => assert.throws(() => hold.throwIfLost(), LostLockError) ?? true,
      isAcquired: (_, mutex) => !mutex.isAcquired,
      "the mutex's lost": (_, mutex) => mutex.lost.aborted,
      fence: (_, mutex) => mutex.fence === undefined,
    })) {
      const mutex = new Mutex(client, `market:${what}`, options), hold = await mutex.acquire();
      assert.equal(hold.isHeld, true);
      await afterAPause(61_000, () => {
        assert.equal(look(hold, mutex), true, what);
        assert.equal(hold.lost.aborted, true, what);
        assert.match(hold.lost.reason.message, /time was over/);
      });
    }
  });

  it(`after a pause beyond its TTL it guards, renews and releases nothing, ${refreshInterval ?? "renewed"}`, async () => {
    for (const [what, act] of Object.entries({
      guard: (hold) => hold.guard("SET", "price", 5), renew: (hold) => hold.renew(60_000), release: (hold) => hold.release(),
    })) {
      const hold = await new Mutex(client, "market", options).acquire();
      await afterAPause(61_000, () => assert.rejects(act(hold), LostLockError, what)); // the server would agree
      assert.equal(await watcher.ask("EXISTS", "price"), 0);
      await watcher.ask("DEL", "mutex:market");
    }
  });
}

it("a release or a renewal of what is over does not wait for a server that does not reply", { timeout: 20_000 }, async () => {
  const silent = () => new Promise(() => {});
  const lock = { _store: { release: silent }, _refresh: silent, _lostError: (_, why) => new Error(why), _forget() {}, _tell() {} };
  for (const interval of [0, 20]) {
    for (const act of [(hold) => hold.release(), (hold) => hold.renew()]) {
      const over = new AbortController();
      const hold = new Hold(lock, { owner: "ann", fence: 1, asked: performance.now(), ttl: 50, interval, over });
      const end = setTimeout(() => {}, 20_000); // its own timers keep no process
      await eventually(() => hold.lost.aborted);
      await assert.rejects(act(hold), /its time was over/);
      clearTimeout(end);
    }
  }
});

for (const [what, fails] of Object.entries({
  "no reply": () => new Promise(() => {}), "a connection that breaks": () => Promise.reject(new Error("it breaks")),
})) {
  it(`a renewal for a shorter time that may have been heard ends the hold then: ${what}`, async () => {
    const lock = { _store: { release: fails }, _refresh: fails, _lostError: (_, why) => new Error(why), _forget() {}, _tell() {} };
    const over = new AbortController(), end = setTimeout(() => {}, 20_000); // its own timers keep no process
    const hold = new Hold(lock, { owner: "ann", fence: 1, asked: performance.now(), ttl: 60_000, interval: 0, over });
    const renewing = assert.rejects(hold.renew(50));
    await eventually(() => hold.lost.aborted);
    await renewing;
    clearTimeout(end);
  });
}

it("a renewal for a shorter time that the server refuses changes nothing", async () => {
  const refused = () => Promise.reject(new Error("NOPERM this user has no permissions"));
  const lock = { _store: { release: refused }, _refresh: refused };
  const hold = new Hold(lock, { owner: "ann", fence: 1, asked: performance.now(), ttl: 60_000, interval: 0, over: new AbortController() });
  await assert.rejects(hold.renew(1_000), /NOPERM/);
  await afterAPause(2_000, () => assert.equal(hold.isHeld, true));
  hold.stopRefresh();
});

for (const [kind, make] of [["mutex", (options) => new Mutex(client, "market", options)],
  ["semaphore", (options) => new Semaphore(client, "market", 3, options)]]) {
  it(`${kind}: a hold guards nothing once its owner has been granted the lock again with another fencing token`, async () => {
    const told = [], options = { identifier: "ann", refreshInterval: 0, lockTimeout: 60_000 };
    const first = await make({ ...options, refreshInterval: 50_000, onLockLost: (error) => told.push(error) }).acquire();
    const repeated = await make(options).acquire();
    assert.equal(repeated.fence, first.fence);
    assert.equal(await first.guard("SET", "price", 5), "OK");
    await watcher.ask("LOCK.BREAK", `${kind}:market`);
    const second = await make(options).acquire();
    assert(second.fence > first.fence);
    for (const one of [first, repeated]) {
      assert.equal(one.isHeld, false);
      await assert.rejects(one.guard("SET", "price", 6), (error) => error instanceof LostLockError && /another fencing token/.test(error.message));
      await assert.rejects(one.renew(), LostLockError);
      await assert.rejects(one.release(), LostLockError);
    }
    assert.equal(told.length, 1);
    assert.equal(await watcher.ask("GET", "price"), "5");
    assert.equal(await second.guard("SET", "price", 7), "OK");
    await second.release();
    await watcher.nothingIsLeft(0, `${kind}:market`);
  });
}

for (const lost of ["request", "reply"]) {
  it(`what an attempt leaves behind after its connection broke ends no later hold of a given owner: its ${lost} was lost`, async () => {
    const breaks = () => Promise.reject(new Error("it breaks"));
    const mutex = new Mutex(client, "market", { identifier: "ann", lockTimeout: 60_000, acquireTimeout: 10_000 });
    const { release, acquire } = mutex._store;
    let releases = 0;
    mutex._store.release = (owner) => {
      releases++;
      return release.call(mutex._store, owner);
    };
    mutex._store.acquire = (...words) => {
      mutex._store.acquire = acquire;
      return lost === "reply" ? acquire.apply(mutex._store, words).then(breaks) : breaks();
    };
    await assert.rejects(mutex.acquire(), /it breaks/);
    const hold = await mutex.acquire();
    await eventually(() => releases === 2); // the second, after what the broken connection was told last
    await new Promise(setImmediate);
    assert.equal(await watcher.ask("GET", "mutex:market"), "ann");
    await hold.release();
    await watcher.nothingIsLeft();
  });
}

it("a wait without end has none, also if it is longer than a timer can be", async () => {
  const longest = 2 ** 31 - 1, { setTimeout: real } = globalThis;
  for (const options of [{}, { retryInterval: 0 }]) {
    const holder = await new Mutex(client, "market", { lockTimeout: 60_000 }).acquire();
    // The longest timer that there is goes off at once.
    const timers = mock.method(globalThis, "setTimeout", (then, ms, ...rest) => real(then, ms >= longest ? 0 : ms, ...rest));
    let hold = null;
    const waiting = new Mutex(client, "market", { acquireTimeout: Infinity, ...options }).acquire().then((one) => { hold = one; });
    try {
      await Promise.race([watcher.waitForWaiters(1), waiting]);
      await new Promise((resolve) => { real(resolve, 100); });
      assert.equal(hold, null);
      await holder.release();
      await waiting;
      await hold.release();
    } finally {
      timers.mock.restore();
    }
  }
});

it("a wait whose owner comes to share the lock is an error, and ends no share", async () => {
  await watcher.ask("LOCK.ACQUIRE", "mutex:market", "reader", 60_000, "SHARED");
  const waiting = assert.rejects(new Mutex(client, "market", { identifier: "mine" }).acquire(), /NOUPGRADE /);
  await watcher.waitForWaiters(1);
  await watcher.ask("ZADD", "mutex:market", await watcher.ask("ZSCORE", "mutex:market", "reader"), "mine");
  await waiting;
  assert.equal((await watcher.info()).count, 2);
});
