"use strict";

// Looks at a server from aside.

const assert = require("node:assert/strict");
const { eventually } = require("./server");

class Watcher {
  constructor(server) {
    this.db = server.db;
  }

  ask(...words) {
    return this.db.call(...words);
  }

  async info(key = "mutex:market") {
    const reply = await this.ask("LOCK.INFO", key);
    return reply && Object.fromEntries(reply.flatMap((name, at) => at % 2 ? [] : [[name, reply[at + 1]]]));
  }

  async waiters(key) {
    return (await this.info(key))?.queue ?? 0;
  }

  waitForWaiters(count, key) {
    return eventually(async () => await this.waiters(key) === count,
      async () => `never ${count} waiters: ${JSON.stringify(await this.info(key))}`);
  }

  async counter(section, name) {
    return +((await this.ask("INFO", section)).match(new RegExp(`^${name}:(?:calls=)?(\\d+)`, "m"))?.[1] ?? 0);
  }

  /** Neither a hold nor a place. */
  async nothingIsLeft(within = 2_000, key) {
    await eventually(async () => await this.info(key) === null && await this.counter("lock", "lock_places") === 0,
      async () => `left: ${JSON.stringify(await this.info(key))}`, within);
  }

  /** No hold, no place, no setting and no count of a test before. */
  async clean() {
    for (const drain of ["yes", "no"]) await this.ask("CONFIG", "SET", "lock.drain", drain);
    await this.ask("FLUSHALL");
    await this.ask("CONFIG", "RESETSTAT");
    assert.equal(await this.counter("lock", "lock_places"), 0);
  }
}

module.exports = { Watcher };
