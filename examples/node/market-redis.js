// The market under a lock, with node-redis. Needs a server with the module (`make run`); PORT says where.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createClientPool, ErrorReply } from "redis";

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
const MARKET = "market", LOCK = "{market}:lock";
const BLOCK = 10_000; // for how long to wait for the lock, in milliseconds

// A single client sends everybody's commands over one connection: while one blocks, all others wait behind it, the
// RELEASE too that would end the wait. So whoever waits for a lock takes a connection out of a pool. The pool's
// maximum is how many can do that at once (100 by default); the next one gives up after acquireTimeout (3 seconds).
// node-redis reads for as long as it takes: its timeout of 5 seconds is for commands that are not sent yet. But a
// socketTimeout, if you set one, must be longer than BLOCK.
const connect = () =>
  createClientPool({ socket: { port: process.env.PORT ?? 6379 } }, { acquireTimeout: BLOCK })
    .on("error", (error) => console.log("  (node-redis:", error.message + ")"))
    .connect();

class LockLost extends Error {} // the hold ended before the work did: somebody else may have worked beside us

// When the connection breaks node-redis connects again, but fails the commands that were under way. So ask again:
// same owner, so same fencing number. (Only the place in line is lost with the connection.)
async function acquire(db, owner, ttl, ...how) {
  for (let tries = 1; ; tries++) {
    try {
      return await db.sendCommand(["LOCK.ACQUIRE", LOCK, owner, `${ttl}`, ...how]);
    } catch (error) {
      if (error instanceof ErrorReply || tries === 5) throw error;
    }
  }
}

const withLock = (pool, ttl, work) => pool.execute(async (db) => {
  const owner = randomUUID(); // a fresh one for each call: two calls with one owner would both be let in
  if (await acquire(db, owner, ttl, "BLOCK", `${BLOCK}`) === null) throw new Error(`not free within ${BLOCK} ms`);
  const lost = new AbortController();
  const renewal = setInterval(async () => {
    if (!await db.sendCommand(["LOCK.RENEW", LOCK, owner, `${ttl}`]).catch(() => 1)) lost.abort(new LockLost());
  }, ttl / 3);
  try {
    return await work(db, owner, lost.signal);
  } finally {
    clearInterval(renewal);
    if (!await db.sendCommand(["LOCK.RELEASE", LOCK, owner])) throw new LockLost();
  }
});

// One command, so all or nothing, and nothing (NOTOWNER) once the lock is lost. If its answer is lost, say it again:
// it sets new values instead of adding (HINCRBY).
const write = (db, owner, values) =>
  db.sendCommand(["LOCK.GUARD", LOCK, owner, "HSET", MARKET, ...Object.entries(values).flat().map(String)]);

const buy = (pool, buyer, item) => withLock(pool, 5_000, async (db, owner) => {
  const market = await db.hGetAll(MARKET);
  const seller = market[`${item}:owner`], price = +market[`${item}:price`], purse = +market[`${buyer}:funds`];
  if (!price || price > purse) return false;
  await write(db, owner, {
    [`${buyer}:funds`]: purse - price, [`${seller}:funds`]: +market[`${seller}:funds`] + price,
    [`${item}:owner`]: buyer, [`${item}:price`]: 0,
  });
  return true;
});

// From here on: the examples at work, and what must come of it.
const pool = await connect(), operator = await connect();
await pool.del([MARKET, LOCK]);
const buyers = Array.from({ length: 20 }, (_, n) => `buyer${n}`);
await pool.hSet(MARKET, { "ann:funds": 0, ...Object.fromEntries(buyers.map((buyer) => [`${buyer}:funds`, 100])) });

await withLock(pool, 5_000, (db, owner) => write(db, owner, { "sword:owner": "ann", "sword:price": 80 }));
const sold = await Promise.all(buyers.map((buyer) => buy(pool, buyer, "sword")));
assert.equal(sold.filter(Boolean).length, 1);
assert.equal(await pool.hGet(MARKET, "ann:funds"), "80");
console.log("twenty wanted the sword, and one has bought it");

await acquire(pool, "a worker that dies", 5_500);
assert.equal(await acquire(pool, "one that only tries", 1_000), null);
const began = Date.now();
await withLock(pool, 1_000, async () => {
  assert(Date.now() - began > 5_000);
  console.log("waited for longer than the default timeout");
  await sleep(2_000);
});
console.log("renewed a long job");

let late;
await assert.rejects(withLock(pool, 300, async (_, owner, lost) => {
  late = owner;
  await operator.sendCommand(["LOCK.BREAK", LOCK]);
  await sleep(10_000, null, { signal: lost });
}), LockLost);
await assert.rejects(write(pool, late, { "ann:funds": 1_000_000 }), /NOTOWNER/);
console.log("a lost lock: the work was stopped, and a late write is refused");

const fence = await acquire(pool, "ann", 5_000);
await operator.sendCommand(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
assert.equal(await acquire(pool, "ann", 5_000), fence);
console.log("connection broken while holding: the same number", fence);

const waiting = buy(pool, "ann", "sword");
const waiter = await whoWaits();
await operator.sendCommand(["CLIENT", "KILL", "ID", waiter]);
assert(await whoWaits(waiter));
await pool.sendCommand(["LOCK.RELEASE", LOCK, "ann"]);
assert.equal(await waiting, false);
console.log("connection broken while waiting: asked again, and served");
pool.destroy();
operator.destroy();

async function whoWaits(otherThan) {
  for (;;) {
    const clients = await operator.sendCommand(["CLIENT", "LIST"]);
    const blocked = clients.match(/^id=\d+(?=.* flags=b)/m)?.[0].slice(3);
    if (blocked && blocked !== otherThan) return blocked;
    await sleep(1);
  }
}
