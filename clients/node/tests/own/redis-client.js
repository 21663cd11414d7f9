"use strict";

// What redis-semaphore's own tests have for a client and a server that they stop: ours, with the module or without.

const Redis = require(process.env.CLIENT);
const { Mutex, Semaphore } = require("redis-lock-module");
const { eventually, Server } = require("../server");

const client1 = new Redis({
  port: process.env.OWN_PORT, lazyConnect: true, enableOfflineQueue: false, autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0, retryStrategy: () => 100,
}).on("error", () => {});
let server;

const upRedisServer = () => server.process.exitCode === null && server.process.signalCode === null ? null : server.up();
const downRedisServer = () => server.kill();

before(async () => {
  server = await Server.start([], { port: process.env.OWN_PORT, module: process.env.WITHOUT_MODULE !== "yes" });
  await client1.connect();
});
beforeEach(async () => {
  await eventually(() => client1.status === "ready");
  await client1.flushdb();
});
after(async () => {
  client1.disconnect();
  await server.stop();
});

// A test that fails releases nothing: what it leaves behind must not fail the next one.
const made = [];
afterEach(() => { for (const lock of made.splice(0)) lock.stopRefresh(); });

// By default theirs throws a loss, and ours warns of it; its owner is a UUID alone.
const THEIR_DEFAULTS = { onLockLost(error) { throw error; }, ownerPrefix: "" };

const remembered = (Lock) => class extends Lock {
  constructor(...words) {
    const options = typeof words.at(-1) === "object" && words.length > 2 ? words.pop() : {};
    super(...words, { ...THEIR_DEFAULTS, ...options });
    made.push(this);
  }
};

// No server at all, which pretends to be one.
const clientMock1 = { sendCommand: () => Promise.reject(new Error("ERR unknown command")) };

module.exports = {
  client1, clientMock1, downRedisServer, upRedisServer, Mutex: remembered(Mutex), Semaphore: remembered(Semaphore),
};
