"use strict";

// Connections that break, stall and are late, and callers who give up, at random: no two are inside, and nothing stays.

const assert = require("node:assert/strict");
const { describe, it } = require("node:test");
const { setTimeout: sleep } = require("node:timers/promises");
const { LostLockError, Mutex, TimeoutError } = require("redis-lock-module");
const { CLIENTS } = require("./clients");
const { Proxy } = require("./proxy");
const { eventually, Server } = require("./server");

// It goes on until there was enough of both, however long a busy machine takes for it.
const HOLDS = +(process.env.HOLDS ?? 100), FAULTS = HOLDS / 5, TTL = 2_000, TASKS = 8;

describe("chaos", { concurrency: true }, () => {
  for (const name of ["ioredis 5", "node-redis 5"]) {
    for (const module of [true, false]) {
      it(`${name}, ${module ? "with" : "without"} the module: no two are inside, and nothing stays`, { timeout: 1_500 * HOLDS }, () =>
        chaos(name, module));
    }
  }
});

async function chaos(name, module) {
  const server = await Server.start([], { module }), proxy = await Proxy.to(server.port);
  const connection = await CLIENTS[name].connect(proxy.port);
  const seen = { held: 0, lost: 0, gaveUp: 0, broke: 0, faults: 0 };
  let inside = null, isOver = false;
  const isEnough = () => isOver || (seen.held >= HOLDS && seen.faults >= FAULTS);
  const work = async () => {
    while (!isEnough()) {
      const mutex = new Mutex(connection.client, "market", { lockTimeout: TTL, acquireTimeout: 3_000, onLockLost() {} });
      const signal = Math.random() < 0.3 ? AbortSignal.timeout(1 + Math.floor(Math.random() * 100)) : undefined;
      try {
        const hold = await mutex.acquire(signal);
        seen.held++;
        // A hold that its process knows to be lost has no more right to be inside.
        assert(!inside?.isHeld, `${hold.identifier} ${hold.fence} was granted while ${inside?.identifier} ${inside?.fence} holds it`);
        inside = hold;
        await sleep(Math.random() * 4);
        if (Math.random() < 0.3) await hold.guard("INCR", "number").catch((error) => { if (error instanceof LostLockError) throw error; });
        if (inside === hold) inside = null;
        await hold.release();
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        if (error instanceof LostLockError) seen.lost++;
        else if (error instanceof TimeoutError || error.name === "TimeoutError") seen.gaveUp++;
        else seen.broke++;
      }
    }
  };
  const breaking = async () => {
    for (; !isEnough(); seen.faults++) {
      await sleep(50 + Math.random() * 200);
      const what = Math.random();
      if (what < 0.4) proxy.cutAll();
      else if (what < 0.7) proxy.loseReplyTo("MARKET");
      else await proxy.stall(Math.random() * 300);
    }
  };
  try {
    await Promise.all([breaking(), ...Array.from({ length: TASKS }, work)]);
    // What was said last may never be read: a ttl, or a lease.
    await eventually(async () => await server.db.exists("mutex:market") === 0, () => JSON.stringify(seen), 10_000);
  } finally {
    isOver = true;
    await connection.close();
    proxy.close();
    await server.stop();
  }
}
