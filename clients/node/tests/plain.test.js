"use strict";

// The same Mutex on a server that has not loaded the module; and while the module is loaded, and unloaded.
// BARE_SERVER=/path/to/redis-server: the first on this one, which may be too old for the module.

const assert = require("node:assert/strict");
const { after, before, beforeEach, describe, it } = require("node:test");
const { setTimeout: sleep } = require("node:timers/promises");
const { Mutex: Theirs } = require("redis-semaphore");
const { LostLockError, ModuleMissingError, Mutex, Semaphore, TimeoutError } = require("redis-lock-module");
const { isUnknown } = require("../lib/errors");
const { CLIENTS } = require("./clients");
const { Proxy } = require("./proxy");
const { eventually, Server } = require("./server");

const FOR_LONG = { lockTimeout: 30_000, acquireTimeout: 20_000 };
const LOADABLE = [["--enable-module-command", "yes"], { module: false }];
const { BARE_SERVER } = process.env;
const BARE = BARE_SERVER ? [[], { module: false, program: BARE_SERVER }] : LOADABLE;

const warnings = [];
process.on("warning", (warning) => { if (warning.code === "REDIS_LOCK_WITHOUT_MODULE") warnings.push(warning); });

// Whose reference speaks RESP2.
const BY_RESP2 = { "node-redis 5, RESP3": "node-redis 5", "node-redis 6": "node-redis 5", "ioredis 6": "ioredis 5" };

async function loadModule(db) {
  await db.call("MODULE", "LOAD", process.env.REDIS_LOCK_MODULE);
}

// It is refused while a client waits, or a timer of the module's lives.
async function unloadModule(db) {
  await eventually(async () => {
    try {
      await db.call("CONFIG", "SET", "lock.drain", "yes");
      return await db.call("MODULE", "UNLOAD", "lock") === "OK";
    } catch (error) {
      if (!/^ERR/.test(error.message)) throw error;
      return false;
    }
  }, "it is never unloaded");
}

describe("without the module", { concurrency: true }, () => {
  for (const name of Object.keys(CLIENTS)) describe(name, { concurrency: 1 }, () => withoutTheModule(name));
});

function withoutTheModule(name) {
  let server, db, proxy, connection, client;
  const mutex = (options = FOR_LONG) => new Mutex(client, "market", options);
  before(async () => {
    server = await Server.start(...BARE);
    db = server.db;
    proxy = await Proxy.to(server.port);
    connection = await CLIENTS[name].connect(proxy.port);
    client = connection.client;
  });
  after(async () => {
    await connection.close();
    proxy.close();
    await server.stop();
  });
  beforeEach(() => db.flushall());

  const answers = () => eventually(async () => await connection.ask("PING").catch(() => null) === "PONG");

  it("it is found out once, by the first request, and again on the next connection", async () => {
    for (let time = 0; time < 3; time++) {
      const hold = await mutex().acquire();
      await hold.guard("PING");
      await hold.renew();
      await hold.release();
    }
    assert.equal(proxy.count("LOCK."), 1);
    assert.equal(proxy.count("MODULE") + proxy.count("COMMAND\r"), 0);
    proxy.cutAll();
    await answers();
    await (await mutex().acquire()).release();
    assert.equal(proxy.count("LOCK."), 2);
  });

  it("it excludes redis-semaphore's own mutex, and is excluded by it", async () => {
    const theirs = new Theirs(db, "market", { acquireAttemptsLimit: 1, lockTimeout: 30_000 });
    const hold = await mutex().acquire();
    assert.equal(await theirs.tryAcquire(), false);
    await hold.release();
    assert.equal(await theirs.tryAcquire(), true);
    assert.equal(await mutex({ acquireTimeout: 50 }).tryAcquire(), false);
    await assert.rejects(mutex({ acquireTimeout: 0 }).acquire(), TimeoutError);
    await theirs.release();
  });

  it("a request that waits polls less and less often, pauses for a tenth of a second at most, and has the lock in the end", async () => {
    const hold = await mutex().acquire(), before = proxy.count("\r\nNX\r\n"), began = performance.now(), waiting = mutex().acquire();
    const asked = () => proxy.count("\r\nNX\r\n") - before;
    await eventually(() => asked() >= 40);
    const took = performance.now() - began; // 40 pauses of half of 100 ms at least; of a second they would be 20 s
    assert(took > 1_000 && took < 15_000, `40 requests in ${took} ms`);
    await hold.release();
    await (await waiting).release();
  });

  it("a request that waits pauses no longer than the user's own interval", async () => {
    const hold = await mutex().acquire(), before = proxy.count("\r\nNX\r\n"), began = performance.now();
    const waiting = mutex({ ...FOR_LONG, retryInterval: 5 }).acquire();
    await eventually(() => proxy.count("\r\nNX\r\n") - before >= 200);
    const took = performance.now() - began; // nominally less than a second; with pauses of 100 ms 15 s
    assert(took < 9_000, `200 requests in ${took} ms`);
    await hold.release();
    await (await waiting).release();
  });

  it("a release wakes those who wait by the same client, in order", async () => {
    const patient = { ...FOR_LONG, retryInterval: 12_000 }, served = []; // each would pause for six seconds at least
    const hold = await mutex(patient).acquire(), before = proxy.count("\r\nNX\r\n");
    const waiting = [0, 1, 2].map(async (number) => {
      const next = await mutex(patient).acquire();
      served.push(number);
      await next.release();
    });
    await eventually(() => proxy.count("\r\nNX\r\n") - before >= 3);
    await answers();
    const began = performance.now();
    await hold.release();
    await Promise.all(waiting);
    const took = performance.now() - began;
    assert(took < 5_000, `it took ${took} ms`);
    assert.deepEqual(served, [0, 1, 2]);
  });

  it("a wait without end that is cancelled leaves nothing", async () => {
    const cancelled = mutex({ acquireTimeout: Infinity }), other = await mutex().acquire();
    await assert.rejects(cancelled.acquire(AbortSignal.timeout(100)), { name: "TimeoutError" });
    await other.release();
    assert.equal(await db.exists("mutex:market"), 0);
  });

  it("it is renewed, and a loss is told of", async () => {
    const told = [], options = { ...FOR_LONG, lockTimeout: 600, refreshInterval: 50, onLockLost: (error) => told.push(error) };
    const hold = await mutex(options).acquire();
    await sleep(900);
    assert.equal(hold.isHeld, true);
    await db.set("mutex:market", "another owner");
    await eventually(() => told.length === 1);
    await assert.rejects(hold.release(), LostLockError);
    assert.equal(await db.get("mutex:market"), "another owner");
  });

  it("a release or a renewal touches nothing that is another owner's, and nothing that is no lock", async () => {
    for (const change of [() => db.set("mutex:market", "other"), async () => { await db.del("mutex:market"); await db.hset("mutex:market", "a", "b"); }]) {
      for (const act of [(hold) => hold.release(), (hold) => hold.renew(), (hold) => hold.guard("SET", "price", 5)]) {
        const hold = await mutex({ ...FOR_LONG, onLockLost() {} }).acquire();
        await change();
        await assert.rejects(act(hold), LostLockError);
        assert.equal(await db.exists("mutex:market"), 1);
        assert.equal(await db.exists("price"), 0);
        await db.del("mutex:market");
      }
    }
  });

  it("what needs the module says so", async () => {
    const needs = (lock, what) => assert.rejects(lock.acquire(), (error) => {
      assert(error instanceof ModuleMissingError);
      assert.match(error.message, what);
      assert.match(error.message, /redis-lock module.*MODULE LOAD/);
      return true;
    });
    await needs(new Semaphore(client, "market", 3), /^a semaphore needs/);
    await needs(new Mutex(client, "market", { shared: true }), /^a shared mutex needs/);
    await needs(new Mutex(client, ["a", "b"]), /^several keys at once need/);
    await needs(new Mutex(client, "market", { requireModule: true }), /^requireModule/);
    assert.deepEqual(await db.keys("*"), []);
  });

  it("what another process has acquired is taken over", async () => {
    const first = await mutex({ ...FOR_LONG, refreshInterval: 0 }).acquire();
    const taken = mutex({ ...FOR_LONG, identifier: first.identifier, acquiredExternally: true });
    const hold = await taken.acquire();
    assert.equal(hold.fence, null);
    await hold.release();
    assert.equal(await db.exists("mutex:market"), 0);
  });

  it("a reply that is lost loses nothing", async () => {
    proxy.loseReplyTo("\r\nNX\r\n");
    const hold = await mutex().acquire();
    assert.equal(await db.get("mutex:market"), hold.identifier);
    assert.equal(await mutex({ acquireAttemptsLimit: 1 }).tryAcquire(), false);
    proxy.loseReplyTo("INCR");
    await assert.rejects(hold.guard("INCR", "number"), (error) => !(error instanceof LostLockError));
    await answers();
    await sleep(50);
    assert.equal(await db.get("number"), "1");
    proxy.loseReplyTo("\r\nPX\r\n");
    await hold.renew(50_000);
    proxy.loseReplyTo(hold.identifier.toUpperCase());
    await hold.release();
    assert.equal(hold.lost.aborted, false);
    assert.equal(await db.exists("mutex:market"), 0);
  });

  it("a guarded command replies as it does with the module, by RESP2", async () => {
    const there = await Server.start(), other = await CLIENTS[BY_RESP2[name] ?? name].connect(there.port);
    const holds = [await mutex().acquire(), await new Mutex(other.client, "market", FOR_LONG).acquire()];
    for (const words of [
      ["SET", "price", 5], ["GET", "price"], ["GET", "none"], ["INCRBY", "price", 3], ["LPUSH", "price", 1], ["MGET", "price", "none"],
      ["HSET", "hash", "a", 1, "b", 2], ["HGETALL", "hash"], ["ZADD", "set", 1.5, "a", 2, "b"], ["ZSCORE", "set", "a"],
      ["ZRANGE", "set", 0, -1, "WITHSCORES"], ["SADD", "members", "a"], ["SMEMBERS", "members"], ["PING"], ["NOPE"], ["SET", "price"],
      ["SET", "bytes", Buffer.from([0, 13, 10, 255])], ["STRLEN", "bytes"], ["INCRBYFLOAT", "float", 0.1], ["LPOP", "nothing", 3],
    ]) {
      const replies = await Promise.all(holds.map((hold) => hold.guard(...words).then(
        (reply) => ({ reply: JSON.stringify(reply) }), (error) => ({ error: /^WRONGTYPE/.test(error.message) ? "WRONGTYPE" : "another" }),
      )));
      assert.deepEqual(replies[0], replies[1], words.join(" "));
    }
    await Promise.all(holds.map((hold) => hold.release()));
    await other.close();
    await there.stop();
  });

  it("what was held one way is renewed, guarded and released the other", { skip: !!BARE_SERVER }, async () => {
    for (const change of [loadModule, unloadModule]) {
      const holds = [];
      for (const key of ["one", "two"]) holds.push(await new Mutex(client, key, FOR_LONG).acquire());
      await change(db);
      proxy.cutAll();
      await answers();
      for (const hold of holds) {
        assert.equal(await hold.guard("SET", "price", 5), "OK");
        await hold.renew();
        assert.equal(await new Mutex(client, hold === holds[0] ? "one" : "two", { acquireAttemptsLimit: 1 }).tryAcquire(), false);
        await hold.release();
        assert.equal(hold.lost.aborted, false);
      }
    }
  });
}

it("a missing module is known by the words of every server", () => {
  for (const said of ["unknown command 'LOCK.ACQUIRE', with args", "unknown command `lock.acquire`",
    "Command is not available: 'LOCK.ACQUIRE'. See"]) {
    assert(isUnknown(new Error(`ERR ${said}`), "LOCK."), said);
  }
  for (const said of ["ERR unknown command 'JSON.SET'", "ERR LOCK commands can't be run inside LOCK.GUARD"]) {
    assert(!isUnknown(new Error(said), "LOCK."), said);
  }
});

it("a warning says once that the module is missing", async () => {
  const server = await Server.start(...LOADABLE), { client, close } = await CLIENTS["node-redis 5"].connect(server.port);
  const before = warnings.length;
  for (let time = 0; time < 3; time++) await (await new Mutex(client, "market").acquire()).release();
  await server.db.client("KILL", "TYPE", "normal", "SKIPME", "yes");
  await (await new Mutex(client, "market").acquire()).release();
  await eventually(() => warnings.length > before);
  await sleep(10);
  assert.equal(warnings.length, before + 1);
  await close();
  await server.stop();
});

it("a client that stays connected asks again after a while", { timeout: 60_000 }, async () => {
  for (const name of ["ioredis 5", "node-redis 5"]) {
    const server = await Server.start(...LOADABLE), { client, close } = await CLIENTS[name].connect(server.port);
    assert.equal((await new Mutex(client, "one").acquire()).fence, null);
    await loadModule(server.db);
    assert.equal((await new Mutex(client, "two").acquire()).fence, null);
    await eventually(async () => {
      const hold = await new Mutex(client, "market").acquire();
      await hold.release();
      return hold.fence > 0;
    });
    await close();
    await server.stop();
  }
});

it("a module that is loaded while one waits is used for the next question", { timeout: 60_000 }, async () => {
  const server = await Server.start(...LOADABLE), { client, close } = await CLIENTS["ioredis 5"].connect(server.port);
  const hold = await new Mutex(client, "market", FOR_LONG).acquire();
  const waiting = new Mutex(client, "market", FOR_LONG).acquire();
  await loadModule(server.db);
  await server.db.client("KILL", "TYPE", "normal", "SKIPME", "yes");
  await eventually(async () => (await server.db.call("LOCK.INFO", "mutex:market")).includes("queue"));
  await hold.release();
  const next = await waiting;
  assert(next.fence === null || next.fence > 0);
  await next.release();
  await close();
  await server.stop();
});
