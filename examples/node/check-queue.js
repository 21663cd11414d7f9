// What must come of waiting without a blocked connection: `node check-queue.js queue-ioredis.js`, or queue-redis.js.
// PORT says where a server with the module is (`make run` starts one).
//
// npm install ioredis redis
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

const { ask, close, connect, withLock } = await import(`./${process.argv[2]}`);
const locks = await connect(+(process.env.PORT ?? 6379)), operator = await connect(+(process.env.PORT ?? 6379));
const LOCK = "market:lock", TASKS = 200, numbers = [...Array(TASKS).keys()];

// A map as an object: RESP2 has none, but the names and the values by turns. (node-redis speaks RESP3 from 6 on.)
const asMap = (reply) => Array.isArray(reply)
  ? Object.fromEntries(reply.flatMap((name, at) => at % 2 ? [] : [[name, reply[at + 1]]])) : reply;
const info = async () => asMap(await ask(operator, "LOCK.INFO", LOCK));
const counter = async (section, name) =>
  +(await ask(operator, "INFO", section)).match(new RegExp(`^${name}:(?:calls=)?(\\d+)`, "m"))?.[1];
async function eventually(what, condition) {
  for (const end = Date.now() + 20_000; !await condition(); await sleep(5)) assert(Date.now() < end, what);
}
const queueIs = (length) => eventually(`a queue of ${length}`, async () => ((await info())?.queue ?? 0) === length);

async function nothingIsLeft() {
  assert.equal(await info(), null);
  assert.equal(await counter("lock", "lock_places"), 0);
  await eventually("memory as before", async () =>
    [...(await ask(operator, "INFO", "lock_memory")).matchAll(/^lock_\w+:(\d+)/gm)].every(([, much]) => much === "0"));
}

await ask(operator, "DEL", LOCK);
await ask(operator, "CONFIG", "SET", "lock.claim-time", "60000"); // on a busy machine a task may be late to claim
await ask(operator, "CONFIG", "RESETSTAT");

// All want it while a first task has it for two seconds. A connection that is blocked would say nothing for as long.
const served = [];
let inside = 0;
const task = (number, work) => withLock(locks, LOCK, 10_000, async () => {
  assert.equal(++inside, 1);
  await work?.();
  served.push(number);
  inside--;
});
let all = Promise.all(numbers.map((number) => task(number, number === 0 ? () => sleep(2_000) : undefined)));
let done = false, slowest = 0;
all.finally(() => { done = true; }).catch(() => {});
for (let pings = 0; !done; pings++) {
  const asked = performance.now();
  assert.equal(await ask(locks, "PING"), "PONG");
  slowest = Math.max(slowest, performance.now() - asked);
  await sleep(2);
}
await all;
assert.deepEqual(served, numbers);
assert(slowest < 1_000, `a PING took ${slowest} ms`);
const asked = await counter("commandstats", "cmdstat_lock.acquire");
assert(asked < 4 * TASKS, `${asked} requests`); // two each: to join, and when told. None of them polls
await nothingIsLeft();
console.log(`${TASKS} tasks on one connection were served in order, with ${asked} requests;`,
  `the slowest PING meanwhile took ${slowest.toFixed(1)} ms`);

// Cancelled before they wait, while they wait, when they are told, while they work.
let ended = { worked: 0, cancelled: 0 };
await Promise.all(Array.from({ length: 1_000 }, async () => {
  await sleep(Math.random() * 1_000);
  const cancel = new AbortController();
  setTimeout(() => cancel.abort(), Math.random() * 40);
  try {
    const { signal } = cancel;
    await withLock(locks, LOCK, 10_000, () => sleep(Math.random() * 4, undefined, { signal }), signal);
    ended.worked++;
  } catch (error) {
    if (error.name !== "AbortError") throw error;
    ended.cancelled++;
  }
}));
assert.equal(ended.worked + ended.cancelled, 1_000);
assert(ended.cancelled > 100, JSON.stringify(ended));
await nothingIsLeft();
console.log(`of 1000 tasks ${ended.cancelled} were cancelled at random moments, and nothing is left of them`);

// The place is the owner's, and not the connection's.
served.length = 0;
await ask(operator, "LOCK.ACQUIRE", LOCK, "another owner", 30_000);
const owners = async () => (await info()).waiters.map((waiter) => asMap(waiter).owner);
all = Promise.all(numbers.slice(0, 50).map((number) => task(number)));
await queueIs(50);
const before = await owners();
const client = await ask(locks, "CLIENT", "ID");
await ask(operator, "CLIENT", "KILL", "TYPE", "pubsub");
await ask(operator, "CLIENT", "KILL", "ID", client);
await eventually("connected again", async () => await ask(locks, "CLIENT", "ID") !== client);
await eventually("subscribed again", async () =>
  (await ask(operator, "PUBSUB", "NUMSUB", locks.channel))[1] === 1);
assert.deepEqual(await owners(), before);
await ask(operator, "LOCK.RELEASE", LOCK, "another owner");
await all;
assert.deepEqual(served, numbers.slice(0, 50));
await nothingIsLeft();
console.log("both connections were killed: all kept their places, and were served in order");
close(locks);
close(operator);
