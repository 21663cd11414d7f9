// The market under a lock, with ioredis. Needs a server with the module (`make run`); PORT says where.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
const MARKET = "market", LOCK = "{market}:lock";
const BLOCK = 10_000; // for how long to wait for the lock, in milliseconds

// ioredis sends everybody's commands over one connection, and the answers come in that order: while one command
// blocks, all others wait behind it, the RELEASE too that would end the wait. So whoever waits for a lock has a
// connection of its own. ioredis knows no read timeout unless you set one: commandTimeout and socketTimeout must be
// longer than BLOCK. (commandTimeout only stops listening: the server goes on waiting, and may grant a lock that
// nobody hears of.) Raw commands are not given your keyPrefix: write the lock's whole name.
const connect = () => new Redis({ port: process.env.PORT ?? 6379 });

class LockLost extends Error {} // the hold ended before the work did: somebody else may have worked beside us

// When the connection breaks ioredis connects again and sends this again (autoResendUnfulfilledCommands): same owner,
// so same fencing number. Its place in line is lost with the connection.
const acquire = (db, owner, ttl, ...how) => db.call("LOCK.ACQUIRE", LOCK, owner, ttl, ...how);

async function withLock(db, ttl, work) {
  const owner = randomUUID(); // a fresh one for each call: two calls with one owner would both be let in
  const own = db.duplicate();
  let renewal;
  try {
    if (await acquire(own, owner, ttl, "BLOCK", BLOCK) === null) throw new Error(`not free within ${BLOCK} ms`);
    const lost = new AbortController();
    renewal = setInterval(async () => {
      if (!await own.call("LOCK.RENEW", LOCK, owner, ttl).catch(() => 1)) lost.abort(new LockLost());
    }, ttl / 3);
    try {
      return await work(owner, lost.signal);
    } finally {
      clearInterval(renewal);
      // Sent twice, RELEASE answers 0 the second time: so this may be a false alarm, but never a missed one.
      if (!await own.call("LOCK.RELEASE", LOCK, owner)) throw new LockLost();
    }
  } finally {
    own.disconnect();
  }
}

// One command, so all or nothing, and nothing (NOTOWNER) once the lock is lost. It sets new values instead of adding
// (HINCRBY), because ioredis may send it twice.
const write = (db, owner, values) =>
  db.call("LOCK.GUARD", LOCK, owner, "HSET", MARKET, ...Object.entries(values).flat());

const buy = (db, buyer, item) => withLock(db, 5_000, async (owner) => {
  const market = await db.hgetall(MARKET);
  const seller = market[`${item}:owner`], price = +market[`${item}:price`], purse = +market[`${buyer}:funds`];
  if (!price || price > purse) return false;
  await write(db, owner, {
    [`${buyer}:funds`]: purse - price, [`${seller}:funds`]: +market[`${seller}:funds`] + price,
    [`${item}:owner`]: buyer, [`${item}:price`]: 0,
  });
  return true;
});

// From here on: the examples at work, and what must come of it.
const db = connect(), operator = connect();
await db.del(MARKET, LOCK);
const buyers = Array.from({ length: 20 }, (_, n) => `buyer${n}`);
await db.hset(MARKET, { "ann:funds": 0, ...Object.fromEntries(buyers.map((buyer) => [`${buyer}:funds`, 100])) });

await withLock(db, 5_000, (owner) => write(db, owner, { "sword:owner": "ann", "sword:price": 80 }));
const sold = await Promise.all(buyers.map((buyer) => buy(db, buyer, "sword")));
assert.equal(sold.filter(Boolean).length, 1);
assert.equal(await db.hget(MARKET, "ann:funds"), "80");
console.log("twenty wanted the sword, and one has bought it");

await acquire(db, "a worker that dies", 5_500);
assert.equal(await acquire(db, "one that only tries", 1_000), null);
const began = Date.now();
await withLock(db, 1_000, async () => {
  assert(Date.now() - began > 5_000);
  console.log("waited for more than 5 seconds");
  await sleep(2_000);
});
console.log("renewed a long job");

let late;
await assert.rejects(withLock(db, 300, async (owner, lost) => {
  late = owner;
  await operator.call("LOCK.BREAK", LOCK);
  await sleep(10_000, null, { signal: lost });
}), LockLost);
await assert.rejects(write(db, late, { "ann:funds": 1_000_000 }), /NOTOWNER/);
console.log("a lost lock: the work was stopped, and a late write is refused");

const fence = await acquire(db, "ann", 5_000);
await operator.client("KILL", "TYPE", "normal", "SKIPME", "yes");
assert.equal(await acquire(db, "ann", 5_000), fence);
console.log("connection broken while holding: the same number", fence);

const waiting = buy(db, "ann", "sword");
const waiter = await whoWaits();
await operator.client("KILL", "ID", waiter);
assert(await whoWaits(waiter));
await db.call("LOCK.RELEASE", LOCK, "ann");
assert.equal(await waiting, false);
console.log("connection broken while waiting: asked again, and served");
db.disconnect();
operator.disconnect();

async function whoWaits(otherThan) {
  for (;;) {
    const blocked = (await operator.client("LIST")).match(/^id=\d+(?=.* flags=b)/m)?.[0].slice(3);
    if (blocked && blocked !== otherThan) return blocked;
    await sleep(1);
  }
}
