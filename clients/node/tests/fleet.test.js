"use strict";

// A fleet changes over as docs/migration.md says: redis-semaphore's own Mutex and this one, on one key.

const assert = require("node:assert/strict");
const { fork } = require("node:child_process");
const { once } = require("node:events");
const { join } = require("node:path");
const { after, before, it } = require("node:test");
const { Server } = require("./server");
const { Watcher } = require("./watcher");

const SECONDS = 3;

let server, watcher;
before(async () => {
  server = await Server.start();
  watcher = new Watcher(server);
});
after(() => server.stop());

it("half a fleet is on the old mutex, and no two work at a time", { timeout: 40_000 }, async () => {
  const options = JSON.stringify({ acquireTimeout: 30_000, retryInterval: 2 });
  const fleet = [["theirs", "ioredis 5"], ["ours", "ioredis 5"], ["theirs", "ioredis 5"], ["ours", "node-redis 5"],
    ["theirs", "ioredis 5"], ["ours", "node-redis 4"]].map(([whose, name]) =>
    fork(join(__dirname, "worker.js"), [whose, name, server.port, SECONDS * 1_000, "market", options]));
  const reports = await Promise.all(fleet.map(async (worker) => (await once(worker, "message"))[0]));
  assert.equal(reports.reduce((sum, { beside }) => sum + beside, 0), 0);
  assert.equal(+await watcher.ask("GET", "number:market"), reports.reduce((sum, { done }) => sum + done, 0));
  for (const { whose, done } of reports) assert(done > 0, `${whose}: ${done}`);
  await watcher.nothingIsLeft();
});
