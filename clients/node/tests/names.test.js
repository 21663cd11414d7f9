"use strict";

// What operators and other clients see of it on the server: the key, and the owner.

const assert = require("node:assert/strict");
const { hostname } = require("node:os");
const { after, before, beforeEach, it } = require("node:test");
const { Mutex, Semaphore } = require("redis-lock-module");
const { CLIENTS } = require("./clients");
const { Server } = require("./server");
const { Watcher } = require("./watcher");

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

let server, watcher;
before(async () => {
  server = await Server.start();
  watcher = new Watcher(server);
});
after(() => server.stop());
beforeEach(() => watcher.clean());

for (const name of ["ioredis 5", "node-redis 5"]) {
  it(`${name}: keyPrefix stands in place of the kind, for a mutex, a semaphore and several keys`, async () => {
    const { client, close } = await CLIENTS[name].connect(server.port);
    for (const [lock, keys] of [
      [new Mutex(client, "market"), ["mutex:market"]],
      [new Semaphore(client, "market", 3), ["semaphore:market"]],
      [new Mutex(client, "market", { keyPrefix: "" }), ["market"]],
      [new Mutex(client, "market", { keyPrefix: "shop:" }), ["shop:market"]],
      [new Semaphore(client, "market", 3, { keyPrefix: "" }), ["market"]],
      [new Mutex(client, ["one", "two"], { keyPrefix: "" }), ["one", "two"]],
      [new Mutex(client, ["one", "two"], { keyPrefix: "", shared: true }), ["one", "two"]],
      [new Semaphore(client, ["one", "two"], 3, { keyPrefix: "shop:" }), ["shop:one", "shop:two"]],
    ]) {
      const hold = await lock.acquire();
      assert.deepEqual((await watcher.ask("KEYS", "*")).sort(), keys);
      await hold.release();
      assert.deepEqual(await watcher.ask("KEYS", "*"), []);
    }
    await close();
  });
}

it("with a client's own keyPrefix, that of the lock comes behind", async () => {
  const { client, close } = await CLIENTS["ioredis 5"].connect(server.port, { keyPrefix: "app:" });
  const hold = await new Mutex(client, "market", { keyPrefix: "" }).acquire();
  assert.deepEqual(await watcher.ask("KEYS", "*"), ["app:market"]);
  await hold.release();
  await close();
});

it("an owner says which host and which process it is of, or what the user says", async () => {
  const { client, close } = await CLIENTS["ioredis 5"].connect(server.port);
  const ownerOf = async (options) => {
    const hold = await new Mutex(client, "market", options).acquire();
    assert.equal(await watcher.ask("GET", "mutex:market"), hold.identifier);
    await hold.release();
    return hold.identifier;
  };
  const here = `${hostname().slice(0, 64)}:${process.pid}:`, owners = [await ownerOf(), await ownerOf()];
  for (const owner of owners) {
    assert(owner.startsWith(here), owner);
    assert.match(owner.slice(here.length), UUID);
  }
  assert.notEqual(owners[0], owners[1]);
  const [prefix, uuid] = (await ownerOf({ ownerPrefix: "worker 7" })).split(":");
  assert.equal(prefix, "worker 7");
  assert.match(uuid, UUID);
  assert.match(await ownerOf({ ownerPrefix: "" }), UUID);
  assert.equal(await ownerOf({ identifier: "ann", ownerPrefix: "web" }), "ann");
  await close();
});
