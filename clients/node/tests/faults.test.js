"use strict";

// What goes wrong between a client and its server, and between tasks that share an object; each was seen to do harm.

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const net = require("node:net");
const { after, before, beforeEach, describe, it, mock } = require("node:test");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");
const { LostLockError, Mutex, Semaphore, TimeoutError } = require("redis-lock-module");
const { CLIENTS } = require("./clients");
const { Proxy } = require("./proxy");
const { eventually, Server } = require("./server");
const { Watcher } = require("./watcher");

const FOR_LONG = { lockTimeout: 30_000, acquireTimeout: 20_000 };

let server, watcher;
before(async () => {
  server = await Server.start();
  watcher = new Watcher(server);
});
after(() => server.stop());
beforeEach(() => watcher.clean());

for (const name of Object.keys(CLIENTS)) {
  describe(`${name}: a reply is lost`, () => {
    let proxy, connection, client;
    before(async () => {
      proxy = await Proxy.to(server.port);
      connection = await CLIENTS[name].connect(proxy.port);
      client = connection.client;
    });
    after(async () => {
      await connection.close();
      proxy.close();
    });

    it("a connection that breaks is followed by another", async () => {
      new Mutex(client, "market");
      for (let times = 0; times < 20; times++) {
        proxy.cutAll();
        const asked = (async () => {
          for (;;) {
            try {
              return await connection.ask("PING");
            } catch {
              await sleep(5);
            }
          }
        })();
        assert.equal(await Promise.race([asked, sleep(10_000, "no reply", { ref: false })]), "PONG");
      }
    });

    it("several keys that were released are not taken for lost", async () => {
      const hold = await new Mutex(client, ["one", "two"], FOR_LONG).acquire();
      proxy.loseReplyTo("LOCK.MRELEASE", 2);
      await hold.release();
      await watcher.nothingIsLeft(0, "mutex:one");
    });
  });
}

for (const name of Object.keys(CLIENTS).filter((one) => one.startsWith("node-redis"))) {
  it(`${name}: a command that is asked for just before the connection breaks puts no later reply out of step`, { timeout: 30_000 }, async () => {
    const sockets = [], { connect } = net;
    const connecting = ["connect", "createConnection"].map((way) => mock.method(net, way, (...words) => {
      sockets.push(connect(...words));
      return sockets.at(-1);
    }));
    const { client, ask, close } = await CLIENTS[name].connect(server.port);
    try {
      const hold = await new Mutex(client, "market", FOR_LONG).acquire();
      for (let time = 0; time < 3; time++) {
        const connections = sockets.length;
        ask("ECHO", "before").catch(() => {});
        sockets.at(-1).destroy(new Error("it breaks")); // said to the client before the turn of the loop is over
        await eventually(() => sockets.length > connections && client.isReady);
        const words = ["a", "b", "c"];
        assert.deepEqual(await Promise.all(words.map((word) => ask("ECHO", word))), words);
        assert.equal(await new Mutex(client, "market", { acquireTimeout: 0 }).tryAcquire(), false);
      }
      await hold.release();
    } finally {
      for (const one of connecting) one.mock.restore();
      close();
    }
  });
}

it("ioredis, a cluster: a guarded command has run once although its reply is lost", async () => {
  const node = await Server.start(["--cluster-enabled", "yes"]), proxy = await Proxy.to(node.port);
  await node.db.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383);
  await node.db.config("SET", "cluster-announce-ip", "127.0.0.1", "cluster-announce-port", proxy.port);
  await eventually(async () => /cluster_state:ok/.test(await node.db.call("CLUSTER", "INFO")));
  for (const name of ["ioredis-4", "ioredis", ...CLIENTS["ioredis 6"] ? ["ioredis-6"] : []]) {
    await node.db.flushall();
    const client = new (require(name).Cluster)([{ host: "127.0.0.1", port: proxy.port }]);
    client.on("error", () => {});
    const hold = await new Mutex(client, "market", FOR_LONG).acquire();
    proxy.loseReplyTo("LOCK.GUARD");
    await assert.rejects(hold.guard("INCR", "{mutex:market}number"));
    await eventually(() => client.get("{mutex:market}number"));
    await sleep(100);
    assert.equal(await node.db.get("{mutex:market}number"), "1", name);
    await hold.release();
    client.disconnect();
  }
  proxy.close();
  await node.stop();
});

it("node-redis, a Sentinel: a guarded command has run once although its reply is lost", async () => {
  const proxy = await Proxy.to(server.port);
  const sentinel = await Server.start([], {
    sentinel: true, config: `sentinel monitor market 127.0.0.1 ${proxy.port} 1\n`,
  });
  const { client, close } = await CLIENTS["node-redis 5"].sentinel(sentinel.port, "market");
  const hold = await new Mutex(client, "market", FOR_LONG).acquire();
  proxy.loseReplyTo("LOCK.GUARD");
  await assert.rejects(hold.guard("INCR", "number"), Error);
  await eventually(() => client.sendCommand(false, ["GET", "number"]).catch(() => null));
  await sleep(100);
  assert.equal(await watcher.ask("GET", "number"), "1");
  await hold.release();
  await close();
  proxy.close();
  await sentinel.stop();
});

describe("one object for several tasks", () => {
  let client;
  before(() => { client = new Redis({ port: server.port }); });
  after(() => client.disconnect());

  const lose = async (lost, key = "mutex:market") => {
    await watcher.ask("LOCK.BREAK", key);
    await eventually(() => lost.aborted);
  };

  it("a hold that was lost does not release its successor", async () => {
    const mutex = new Mutex(client, "market", { ...FOR_LONG, refreshInterval: 20, onLockLost() {} });
    const first = await mutex.acquire();
    await lose(first.lost);
    const second = await mutex.acquire();
    await assert.rejects(first.release(), LostLockError);
    assert.equal(second.isHeld, true);
    assert.equal(await watcher.ask("GET", "mutex:market"), second.identifier);
    await second.release();
    await watcher.nothingIsLeft();
  });

  // By the mutex itself, as one writes it with redis-semaphore. The successor waits already, or comes later.
  for (const comesLater of [false, true]) {
    it(`a task that has lost its hold does not release that of a task that ${comesLater ? "comes later" : "waits"}`, async () => {
      const mutex = new Mutex(client, "market", { ...FOR_LONG, refreshInterval: 20, onLockLost() {} });
      let leave, leaveLast;
      const first = async (until) => {
        await mutex.acquire();
        try {
          await until;
        } finally {
          await mutex.release();
        }
      };
      const working = first(new Promise((resolve) => { leave = resolve; }));
      await eventually(() => mutex.isAcquired);
      const { lost, identifier } = mutex, following = () => first(new Promise((resolve) => { leaveLast = resolve; }));
      let second;
      if (!comesLater) second = following();
      await lose(lost);
      if (comesLater) second = following();
      const successor = await eventually(async () => {
        const owner = await watcher.ask("GET", "mutex:market");
        return owner !== identifier && mutex.isAcquired && owner;
      });
      leave();
      await working;
      assert.equal(await watcher.ask("GET", "mutex:market"), successor);
      assert.equal(mutex.isAcquired, true);
      leaveLast();
      await second;
      await watcher.nothingIsLeft();
    });
  }

  it("one task after the other may use it, also if a lost hold was never released", async () => {
    const mutex = new Mutex(client, "market", { ...FOR_LONG, refreshInterval: 20, onLockLost() {} });
    for (let time = 0; time < 3; time++) {
      await mutex.acquire();
      await lose(mutex.lost);
    }
    await mutex.acquire();
    await mutex.release();
    await watcher.nothingIsLeft();
    await mutex.release(); // and nothing happens
  });

  it("each task that shares a semaphore releases its own permit", async () => {
    const semaphore = new Semaphore(client, "market", 3, FOR_LONG);
    let inside = 0, most = 0;
    await Promise.all(Array.from({ length: 30 }, async () => {
      await sleep(Math.random() * 20);
      const hold = await semaphore.acquire();
      most = Math.max(most, ++inside);
      await sleep(Math.random() * 5);
      assert.equal(await hold.guard("ECHO", "mine"), "mine");
      inside--;
      await hold.release();
    }));
    assert.equal(most, 3);
    await watcher.nothingIsLeft(0, "semaphore:market");
  });

  it("a hold knows its own number, end and guard", async () => {
    const semaphore = new Semaphore(client, "market", 2, { lockTimeout: 1_000, refreshInterval: 0 });
    const one = await semaphore.acquire(), other = await semaphore.tryHold();
    assert(other.fence > one.fence && one.identifier !== other.identifier);
    assert.equal(await semaphore.tryAcquire(AbortSignal.timeout(100)).catch(() => false), false);
    await one.renew(60_000);
    await eventually(() => other.lost.aborted);
    assert.equal(one.isHeld, true);
    assert.equal(one.lost.aborted, false);
    await assert.rejects(other.renew(), LostLockError);
    await assert.rejects(other.guard("SET", "price", 5), LostLockError);
    assert.equal(await one.guard("SET", "price", 6), "OK");
    await one.release();
    assert.equal(one.isReleased, true);
    await one.release(); // and nothing happens
    await assert.rejects(one.guard("SET", "price", 5), LostLockError);
  });

  it("a lost hold says so when it is released, and how that is known", async () => {
    const began = Date.now(), told = [];
    const mutex = new Mutex(client, "market", { ...FOR_LONG, refreshInterval: 0, onLockLost: (error) => told.push(error) });
    const hold = await mutex.acquire();
    await watcher.ask("LOCK.BREAK", "mutex:market");
    await assert.rejects(hold.release(), (error) => {
      assert(error instanceof LostLockError);
      assert.equal(error.message, "Lost mutex for key mutex:market: when it was to be released, the server had it no more");
      assert.equal(error.cause.message, "when it was to be released, the server had it no more");
      assert.deepEqual([error.key, error.identifier, error.fence], ["mutex:market", hold.identifier, hold.fence]);
      return error.at >= began && error.at <= Date.now() && error === hold.lost.reason;
    });
    await assert.rejects(hold.release(), LostLockError); // and again
    assert.equal(told.length, 0);
  });

  it("a release that is too late for its own clock is no success, even if the server agrees to it", async () => {
    const hold = await new Mutex(client, "market", { lockTimeout: 300, refreshInterval: 0 }).acquire();
    await watcher.ask("PEXPIRE", "mutex:market", 60_000);
    await eventually(() => hold.lost.aborted);
    await assert.rejects(hold.release(), LostLockError);
    await watcher.nothingIsLeft();
  });

  it("the signal that was asked for before the lock was acquired tells of its loss", async () => {
    const mutex = new Mutex(client, "market", { ...FOR_LONG, refreshInterval: 20, onLockLost() {} });
    for (let time = 0; time < 2; time++) {
      const { lost } = mutex;
      const hold = await mutex.acquire();
      assert.equal(hold.lost, lost);
      if (time === 1) await lose(lost);
      else await hold.release();
    }
  });
});

it("a loss that is not listened to is a warning, and does not end the process", async () => {
  const { status, stderr } = spawnSync(process.execPath, ["-e", `
    const client = new (require("ioredis"))(${server.port});
    const { Mutex } = require("redis-lock-module");
    (async () => {
      const hold = await new Mutex(client, "market", { lockTimeout: 10_000, refreshInterval: 50 }).acquire();
      await client.call("LOCK.BREAK", "mutex:market");
      await new Promise((resolve) => hold.lost.addEventListener("abort", resolve));
      setTimeout(() => process.exit(7), 50);
    })();
  `], { cwd: __dirname, timeout: 20_000, encoding: "utf8" });
  assert.equal(status, 7, stderr);
  assert.match(stderr, /LostLockError: Lost mutex for key mutex:market/);
});

it("a client that may not subscribe asks seldom, and listens when it may", async () => {
  await watcher.ask("ACL", "SETUSER", "quiet", "on", ">secret", "~*", "+@all", "resetchannels");
  for (const connect of [
    async () => new Redis({ port: server.port, username: "quiet", password: "secret" }),
    () => require("redis-5").createClient({ socket: { port: server.port }, username: "quiet", password: "secret" }).connect(),
  ]) {
    await watcher.clean();
    await watcher.ask("ACL", "SETUSER", "quiet", "resetchannels");
    const client = await connect();
    const first = await new Mutex(client, "market", FOR_LONG).acquire();
    const waiting = new Mutex(client, "market", FOR_LONG).acquire();
    await sleep(3_000);
    const asked = await watcher.counter("commandstats", "cmdstat_lock.acquire");
    assert(asked < 40, `${asked} requests in three seconds`);
    await watcher.ask("ACL", "SETUSER", "quiet", "allchannels");
    await eventually(async () => (await watcher.ask("PUBSUB", "CHANNELS", "*")).length === 1);
    await first.release();
    await (await waiting).release();
    client.destroy ? client.destroy() : client.disconnect();
  }
});

for (const module of [true, false]) {
  describe(`a server that does not reply, ${module ? "with" : "without"} the module`, { concurrency: true }, () => {
    for (const name of Object.keys(CLIENTS)) it(`holds up nothing beyond its deadline: ${name}`, () => holdsUpNothing(name, module));
  });
}

async function holdsUpNothing(name, module) {
  const stopped = await Server.start([], { module }), { client, close } = await CLIENTS[name].connect(stopped.port);
  const hold = (key) => new Mutex(client, key, { lockTimeout: 1_000, refreshInterval: 0 }).acquire();
  const [released, renewed, over, overToo] = [await hold("a"), await hold("b"), await hold("c"), await hold("d")];
  const given = { identifier: "ann", acquiredExternally: true, acquireTimeout: 500, lockTimeout: 1_000 };
  const took = {}, timed = async (what, doing) => {
    const began = performance.now();
    await doing;
    took[what] = performance.now() - began;
  };
  stopped.process.kill("SIGSTOP");
  try {
    await Promise.race([sleep(25_000, "these never came", { ref: false }).then(assert.fail), Promise.all([
      timed("release", assert.rejects(released.release(), LostLockError)),
      timed("renew", assert.rejects(renewed.renew(), LostLockError)),
      timed("acquire", assert.rejects(new Mutex(client, "e", { acquireTimeout: 500 }).acquire(), TimeoutError)),
      timed("try", assert.rejects(new Mutex(client, "f", { acquireTimeout: 0 }).acquire(), TimeoutError)),
      timed("abort", assert.rejects(new Mutex(client, "g", { acquireTimeout: Infinity }).acquire(AbortSignal.timeout(100)),
        { name: "TimeoutError" })),
      timed("take over", assert.rejects(new Mutex(client, "h", given).acquire(), TimeoutError)),
      timed("release unseen", new Mutex(client, "i", given).release()),
    ])]);
    // The deadline, and two seconds for what is to be withdrawn.
    for (const [what, ms] of Object.entries(took)) assert(ms < 10_000, `${what} took ${ms} ms`);
    await eventually(() => over.lost.aborted && overToo.lost.aborted);
    await timed("release of what is over", assert.rejects(over.release(), LostLockError));
    await timed("renewal of what is over", assert.rejects(overToo.renew(), LostLockError));
    assert(took["release of what is over"] < 1_000 && took["renewal of what is over"] < 1_000, JSON.stringify(took));
  } finally {
    stopped.process.kill("SIGCONT");
    await close();
    await stopped.stop();
  }
}

it("a crowd that is told when it is its turn does not ask meanwhile", async () => {
  const client = new Redis({ port: server.port }), CROWD = 2_000, controller = new AbortController();
  const holders = [], waiting = [];
  await watcher.ask("CONFIG", "SET", "lock.max-waiters-total", 0).catch(() => {});
  for (let number = 0; number < CROWD; number++) {
    holders.push(new Mutex(client, `market:${number}`, FOR_LONG).acquire());
  }
  await Promise.all(holders);
  for (let number = 0; number < CROWD; number++) {
    waiting.push(new Mutex(client, `market:${number}`, { ...FOR_LONG, acquireTimeout: 60_000 }).acquire(controller.signal));
  }
  for (const one of waiting) one.catch(() => {});
  await eventually(async () => (await watcher.counter("lock", "lock_places")) === CROWD);
  // Until all have asked by way of the channel.
  const asks = () => watcher.counter("commandstats", "cmdstat_lock.acquire");
  await eventually(async () => {
    const before = await asks();
    await sleep(1_000);
    return (await asks()) - before < 500;
  });
  await watcher.ask("CONFIG", "RESETSTAT");
  await sleep(3_000);
  const asked = await asks();
  assert(asked < 3 * 500, `${asked} requests in three seconds`);
  const released = performance.now();
  await (await holders[7]).release();
  await (await waiting[7]).release();
  assert(performance.now() - released < 1_500);
  controller.abort();
  await Promise.allSettled(waiting);
  for (const hold of await Promise.all(holders)) if (!hold.isReleased) hold.stopRefresh();
  client.disconnect();
});

it("an operator may allow shorter leases only", async () => {
  const client = new Redis({ port: server.port });
  await watcher.ask("CONFIG", "SET", "lock.max-place-ttl", 1_000);
  const first = await new Mutex(client, "market", FOR_LONG).acquire();
  const waiting = new Mutex(client, "market", FOR_LONG).acquire();
  await watcher.waitForWaiters(1);
  await sleep(1_500);
  await first.release();
  await (await waiting).release();
  await watcher.ask("CONFIG", "SET", "lock.max-place-ttl", 60_000);
  client.disconnect();
});
