// What must come of a market: `node check.js market-ioredis.js`, or market-redis.js. PORT says where a server with the
// module is (`make run` starts one).
//
// npm install ioredis redis
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

const { ask, BLOCK, buy, Busy, connect, LOCK, LockLost, MARKET, sell, takeStock, withLock, write } =
  await import(`./${process.argv[2]}`);
const db = await connect(+(process.env.PORT ?? 6379)), operator = await connect(+(process.env.PORT ?? 6379));
const acquire = (owner, ttl) => ask(db, "LOCK.ACQUIRE", LOCK, owner, ttl);

async function whoWaits(otherThan) {
  for (;;) {
    const blocked = (await ask(operator, "CLIENT", "LIST")).match(/^id=\d+(?=.* flags=b)/m)?.[0].slice(3);
    if (blocked && blocked !== otherThan) return blocked;
    await sleep(1);
  }
}

await ask(db, "DEL", MARKET, LOCK);
const buyers = Array.from({ length: 20 }, (_, n) => `buyer${n}`);
await ask(db, "HSET", MARKET, "ann:funds", 0, ...buyers.flatMap((buyer) => [`${buyer}:funds`, 100]));

await sell(db, "ann", "sword", 80);
const sold = await Promise.all(buyers.map((buyer) => buy(db, buyer, "sword")));
assert.equal(sold.filter(Boolean).length, 1);
assert.equal(await ask(db, "HGET", MARKET, "ann:funds"), "80");
console.log("twenty wanted the sword, and one has bought it");

await acquire("a worker that dies", 5_500);
await assert.rejects(sell(db, "ann", "shield", 90), Busy);
console.log("tried, and did not wait");
const began = Date.now();
assert.equal(await buy(db, "ann", "sword"), false);
assert(Date.now() - began > 5_000);
console.log("waited for more than 5 seconds");

await takeStock(db, 5);
console.log("renewed a long job");

let late;
await assert.rejects(withLock(db, 300, [], async (owner, lost) => {
  late = owner;
  await ask(operator, "LOCK.BREAK", LOCK);
  await sleep(10_000, undefined, { signal: lost });
}), LockLost);
await assert.rejects(write(db, late, { "ann:funds": 1_000_000 }), /NOTOWNER/);
console.log("a lost lock: the work was stopped, and a late write is refused");

const fence = await acquire("ann", 5_000);
await ask(operator, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
assert.equal(await acquire("ann", 5_000), fence);
console.log("connection broken while holding: the same number", fence);

const waiting = buy(db, "ann", "sword");
const waiter = await whoWaits();
await ask(operator, "CLIENT", "KILL", "ID", waiter);
assert(await whoWaits(waiter));
await ask(db, "LOCK.RELEASE", LOCK, "ann");
assert.equal(await waiting, false);
console.log("connection broken while waiting: asked again, and served");

// Another owner's hold ends at the very moment in which a call gives up. A few at once, as each has to connect.
let cancelled = 0;
for (let round = 0; round < 200; round++) {
  const moment = 3 + Math.random() * 6;
  await ask(operator, "LOCK.ACQUIRE", LOCK, "another owner", Math.round(moment));
  await Promise.all(Array.from({ length: 5 }, async () => {
    const signal = AbortSignal.timeout(Math.round(moment + Math.random() * 8));
    try {
      await withLock(db, 60_000, ["BLOCK", BLOCK], (owner, stop) => sleep(2, undefined, { signal: stop }), signal);
    } catch (error) {
      if (!signal.aborted || error instanceof LockLost) throw error;
      cancelled++;
    }
  }));
  for (const end = Date.now() + 5_000; await ask(operator, "LOCK.INFO", LOCK) !== null; await sleep(1)) {
    assert(Date.now() < end, "a call that was given up has left the lock behind");
  }
}
assert(cancelled > 100, String(cancelled));
console.log(`${cancelled} of 1000 gave up about the moment of their grant, and left nothing behind`);
process.exit();
