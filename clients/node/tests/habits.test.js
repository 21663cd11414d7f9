"use strict";

// What redis-semaphore's Mutex and Semaphore do, these do too: each test runs with theirs and with ours.

const assert = require("node:assert/strict");
const { after, before, beforeEach, describe, it } = require("node:test");
const { setTimeout: sleep } = require("node:timers/promises");
const theirs = require("redis-semaphore");
const ours = require("redis-lock-module");
const { CLIENTS } = require("./clients");
const { eventually, Server } = require("./server");

const QUICK = { lockTimeout: 600, acquireTimeout: 200, refreshInterval: 100, retryInterval: 10 };
const FOR_LONG = { acquireTimeout: 20_000 };

const libraries = [["theirs", theirs, "ioredis 5"], ...Object.keys(CLIENTS).map((name) => ["ours", ours, name])];

let server;
before(async () => { server = await Server.start(); });
after(() => server.stop());

describe("habits", { concurrency: true }, () => {
  for (const each of libraries) {
    describe(`${each[0]}, with ${each[2]}`, { concurrency: 1 }, () => tellOf(...each));
  }
});

function tellOf(whose, library, name) {
  const { Mutex, Semaphore, LostLockError, TimeoutError } = library;
  const market = `${whose} ${name}`, keys = [`mutex:${market}`, `semaphore:${market}`];
  let connection, client;
  beforeEach(() => server.db.del(...keys));
  before(async () => {
    connection = await CLIENTS[name].connect(server.port);
    client = connection.client;
  });
  after(() => connection.close());

  const kinds = {
    Mutex: (options) => new Mutex(client, market, options),
    Semaphore: (options) => new Semaphore(client, market, 1, options),
  };

  it("a mutex is a string with an expiry at its key", async () => {
    const mutex = new Mutex(client, market, { lockTimeout: 10_000 });
    assert.equal(mutex.isAcquired, false);
    await mutex.acquire();
    assert.equal(mutex.isAcquired, true);
    assert.equal(await server.db.get(keys[0]), mutex.identifier);
    const left = await server.db.pttl(keys[0]);
    assert(left > 9_000 && left <= 10_000);
    await mutex.release();
    assert.equal(mutex.isAcquired, false);
    assert.equal(await server.db.exists(keys[0]), 0);
  });

  for (const [kind, make] of Object.entries(kinds)) {
    it(`${kind}: others wait, and go when the time is up`, async () => {
      const first = make(FOR_LONG), second = make(QUICK);
      await first.acquire();
      const began = performance.now();
      assert.equal(await second.tryAcquire(), false);
      const took = performance.now() - began;
      assert(took > 150 && took < 5_000, `it took ${took} ms`);
      await assert.rejects(second.acquire(), (error) => {
        assert(error instanceof TimeoutError);
        return error.message === `Acquire ${kind.toLowerCase()} ${kind.toLowerCase()}:${market} timeout`;
      });
      assert.equal(second.isAcquired, false);
      await first.release();
      await second.acquire();
      await second.release();
    });

    it(`${kind}: one who waits has it when it is released`, async () => {
      const first = make(FOR_LONG), second = make(FOR_LONG);
      await first.acquire();
      const waiting = second.acquire();
      await sleep(50);
      assert.equal(second.isAcquired, false);
      await first.release();
      await waiting;
      assert.equal(second.isAcquired, true);
      await second.release();
    });

    it(`${kind}: one attempt does not wait`, async () => {
      const first = make(), second = make({ acquireAttemptsLimit: 1 });
      await first.acquire();
      const began = performance.now();
      assert.equal(await second.tryAcquire(), false);
      assert(performance.now() - began < 5_000);
      await first.release();
    });

    it(`${kind}: a wait is aborted by a signal, with its reason`, async () => {
      const first = make(FOR_LONG), second = make(FOR_LONG);
      await first.acquire();
      const controller = new AbortController(), why = new Error("no more");
      setTimeout(() => controller.abort(why), 50);
      await assert.rejects(second.acquire(controller.signal), (error) => error === why || error.cause === why);
      await assert.rejects(second.acquire(AbortSignal.abort(why)), why);
      await first.release();
      await second.acquire();
      await second.release();
    });

    it(`${kind}: it is renewed until it is released`, async () => {
      const lock = make(QUICK);
      await lock.acquire();
      await sleep(1_000);
      assert.equal(lock.isAcquired, true);
      assert.equal(await make({ acquireAttemptsLimit: 1 }).tryAcquire(), false);
      await lock.release();
      assert.equal(await server.db.exists(`${kind.toLowerCase()}:${market}`), 0);
    });

    it(`${kind}: it ends when it is renewed no more`, async () => {
      const lock = make(QUICK);
      await lock.acquire();
      lock.stopRefresh();
      const other = make(FOR_LONG);
      await other.acquire();
      await other.release();
      await lock.release();
    });

    it(`${kind}: a lost lock is told of`, async () => {
      const told = [];
      const lock = make({ ...QUICK, onLockLost(error) { told.push([this, error, this.isAcquired]); } });
      await lock.acquire();
      await server.db.del(...keys);
      await eventually(() => told.length > 0);
      assert.equal(told[0][0], lock);
      assert(told[0][1] instanceof LostLockError);
      assert(told[0][1].message.startsWith(`Lost ${kind.toLowerCase()} for key ${kind.toLowerCase()}:${market}`));
      assert.equal(told[0][2], false);
      assert.equal(lock.isAcquired, false);
      await lock.release(); // and nothing happens
      await lock.acquire();
      await lock.release();
      await sleep(300);
      assert.equal(told.length, 1);
    });

    it(`${kind}: what one has acquired another takes over, renews and releases`, async () => {
      const scheduler = make({ ...QUICK, refreshInterval: 0 });
      await scheduler.acquire();
      const { identifier } = scheduler;
      const handler = make({ ...QUICK, identifier, acquiredExternally: true });
      await handler.acquire();
      assert.equal(handler.identifier, identifier);
      await sleep(1_000);
      assert.equal(await make({ acquireAttemptsLimit: 1 }).tryAcquire(), false);
      await handler.release();
      assert.equal(await server.db.exists(`${kind.toLowerCase()}:${market}`), 0);
      const late = make({ ...QUICK, identifier, acquiredExternally: true });
      assert.equal(await late.tryAcquire(), false);
    });

    it(`${kind}: it can be used again and again`, async () => {
      const lock = make(QUICK);
      for (let round = 0; round < 3; round++) {
        await lock.acquire();
        assert.equal(lock.isAcquired, true);
        await lock.release();
        assert.equal(await server.db.exists(`${kind.toLowerCase()}:${market}`), 0);
      }
    });
  }

  it("two tasks that share a mutex exclude each other", async () => {
    for (const options of [FOR_LONG, { ...FOR_LONG, identifier: "one for both" }]) {
      const mutex = new Mutex(client, market, options);
      let inside = 0;
      await Promise.all(Array.from({ length: 5 }, async () => {
        await mutex.acquire();
        assert.equal(++inside, 1);
        await sleep(10);
        inside--;
        await mutex.release();
      }));
    }
  });

  it("as many hold a semaphore as its limit says", async () => {
    let inside = 0, most = 0;
    await Promise.all(Array.from({ length: 9 }, async () => {
      const semaphore = new Semaphore(client, market, 3, FOR_LONG);
      await semaphore.acquire();
      most = Math.max(most, ++inside);
      await sleep(20);
      inside--;
      await semaphore.release();
    }));
    assert.equal(most, 3);
  });

  it("an error of the server is thrown", async () => {
    await server.db.hset(keys[0], "a", "b");
    await server.db.hset(keys[1], "a", "b");
    await assert.rejects(new Semaphore(client, market, 2).acquire(), /WRONGTYPE/);
    if (whose === "ours") await assert.rejects(new Mutex(client, market).acquire(), /WRONGTYPE/);
  });

  it("what makes no sense is refused at once", () => {
    const refused = (make, message) => assert.throws(make, (error) => error.message.startsWith(message));
    refused(() => new Mutex(null, market), '"client" is required');
    refused(() => new Mutex(client, ""), '"key" is required');
    refused(() => new Mutex(client, 1), '"key" must be a string');
    refused(() => new Semaphore(client, market, 0), '"limit" is required');
    refused(() => new Semaphore(client, market, "2"), '"limit" must be a number');
    refused(() => new Mutex(client, market, { identifier: "" }), "identifier must be not empty random string");
    refused(() => new Mutex(client, market, { acquiredExternally: true }),
      "acquiredExternally=true meanless without custom identifier");
    refused(() => new Mutex(client, market, { identifier: "a", externallyAcquiredIdentifier: "a" }),
      "Invalid usage. Use custom identifier and acquiredExternally: true");
  });
}

it("a process that holds a lock, and has nothing else to do, ends", { timeout: 20_000 }, async () => {
  const { execFileSync } = require("node:child_process");
  for (const library of ["redis-semaphore", "redis-lock-module"]) {
    execFileSync(process.execPath, ["-e", `
      const client = new (require("ioredis"))(${server.port});
      const { Mutex } = require("${library}");
      const first = new Mutex(client, "ends"), second = new Mutex(client, "ends", { acquireTimeout: 100 });
      first.acquire().then(() => second.tryAcquire()).then(() => client.quit());
    `], { cwd: __dirname, timeout: 5_000 });
    await server.db.flushall();
  }
});
