// redis-semaphore's Semaphore and this module must not share a key. PORT says where the server is.
import assert from "node:assert/strict";
import { Redis } from "ioredis";
import { Semaphore } from "redis-semaphore";

const db = new Redis({ port: +process.env.PORT }), KEY = "semaphore:market";
const ours = (command, ...words) => db.call(`LOCK.${command}`, KEY, ...words);
// A try is one attempt: with a short acquireTimeout it may make none.
const limits = { lockTimeout: 5_000, acquireTimeout: 10_000, acquireAttemptsLimit: 1, refreshInterval: 0 };
const theirs = () => new Semaphore(db, "market", 3, limits);

assert(await ours("ACQUIRE", "ann", 60_000, "SHARED") > 0);
await theirs().acquire();
assert(await ours("CHECK", "ann") <= 5_000);
// Its score is the time of its grant, which to us is its end: in that very millisecond it still counts.
while ((await ours("INFO"))[5] !== 1) await db.ping();
console.log("it comes in beside a share of ours, uncounted, and cuts a hold of 60 seconds to its own 5");

await db.del(KEY);
assert(await ours("ACQUIRE", "ann", 60_000) > 0);
await assert.rejects(theirs().acquire(), /WRONGTYPE/);
assert(await ours("CHECK", "ann") > 5_000);
await db.del(KEY);
await theirs().acquire();
const before = await db.dump(KEY);
for (const how of [[], ["SHARED"], ["LIMIT", 3]]) {
  await assert.rejects(ours("ACQUIRE", "ann", 60_000, ...how), /WRONGTYPE/);
}
assert.deepEqual(await db.dump(KEY), before);
console.log("where the kinds differ both are refused, and nothing has changed");
process.exit();
