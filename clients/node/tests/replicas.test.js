"use strict";

// A lock that replicas have to acknowledge, on servers without the module; and a limit that groups share.

const assert = require("node:assert/strict");
const { after, before, beforeEach, describe, it } = require("node:test");
const { ModuleMissingError, Mutex, Semaphore } = require("redis-lock-module");
const { CLIENTS } = require("./clients");
const { eventually, Server } = require("./server");

describe("replicas", { concurrency: true }, () => {
  for (const name of Object.keys(CLIENTS)) describe(name, { concurrency: 1 }, () => withReplicas(name));
});

function withReplicas(name) {
  let server, replica, connection, client;
  const mutex = (options) => new Mutex(client, "market", { keyPrefix: "", lockTimeout: 60_000, refreshInterval: 0, replicas: 1, ...options });
  const isFree = async () => await server.db.exists("market") === 0;
  before(async () => {
    server = await Server.start(["--repl-diskless-sync-delay", 0], { module: false });
    replica = await Server.start(["--replicaof", `127.0.0.1 ${server.port}`], { module: false });
    await eventually(async () => /state=online/.test(await server.db.info("replication")));
    connection = await CLIENTS[name].connect(server.port);
    client = connection.client;
  });
  after(async () => {
    replica.process.kill("SIGCONT");
    await connection.close();
    await Promise.all([server, replica].map((one) => one.stop()));
  });
  beforeEach(async () => {
    replica.process.kill("SIGCONT");
    await server.db.flushall();
  });

  it("a hold is what replicas have", async () => {
    const hold = await mutex().acquire();
    assert.equal(await replica.db.get("market"), hold.identifier);
    await hold.renew(120_000);
    assert(await replica.db.pttl("market") > 60_000);
    await hold.release();
    assert(await isFree());
  });

  it("what too few have is released, and the connection of all is of use meanwhile", async () => {
    const hold = await mutex().acquire();
    replica.process.kill("SIGSTOP");
    let isRenewed = false;
    const renewing = hold.renew(120_000).finally(() => { isRenewed = true; });
    assert.equal(await connection.ask("PING"), "PONG");
    assert(!isRenewed);
    await assert.rejects(renewing, /^Error: NOREPLICAS 0 of 1/);
    assert(hold.isHeld);
    await hold.release();
    await assert.rejects(mutex({ acquireTimeout: 0 }).acquire(), /^Error: NOREPLICAS 0 of 1/);
    await eventually(isFree);
  });

  it("after too few acknowledgements the earlier end counts", async () => {
    const hold = await mutex().acquire();
    replica.process.kill("SIGSTOP");
    await assert.rejects(hold.renew(50));
    assert(!hold.isHeld);
  });

  it("more holds than connections are renewed at a time", async () => {
    const holds = await Promise.all([...Array(40)].map((_, number) =>
      new Mutex(client, `stall-${number}`, { lockTimeout: 60_000, replicas: 1 }).acquire()));
    await Promise.all(holds.map((hold) => hold.renew(60_000)));
    assert((await server.db.client("LIST")).split("\n").length < 30);
    await Promise.all(holds.map((hold) => hold.release()));
  });

  it("a user who may not WAIT holds nothing", async () => {
    await server.db.acl("SETUSER", "default", "-wait");
    try {
      await assert.rejects(mutex().acquire(), /NOREPLICAS WAIT is refused/);
      await eventually(isFree);
    } finally {
      await server.db.acl("SETUSER", "default", "+wait");
    }
  });

  it("without the module no groups share a limit", async () => {
    await assert.rejects(new Semaphore(client, "market", 2, { fair: "ann" }).acquire(), ModuleMissingError);
  });
}

it("a client that can't be duplicated is refused in words", () => {
  assert.throws(() => new Mutex({ sendCommand() {} }, "market", { replicas: 1 }), /connection of its own/);
});

it("a group precedes an owner once", () => {
  const ask = (identifier) => new Semaphore({ sendCommand() {} }, "market", 2, { identifier, fair: "ann" }).identifier;
  assert.equal(ask("job-7"), "ann:job-7");
  assert.equal(ask("ann:job-7"), "ann:job-7");
});
