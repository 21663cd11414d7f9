// The market under a lock, with ioredis 5. check.js beside it runs it.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
export const MARKET = "{market}:goods", LOCK = "{market}:lock";
export const BLOCK = 10_000; // for how long to wait for the lock, in milliseconds

export class Busy extends Error {} // others have the market
export class LockLost extends Error {} // the hold ended before the work did: another owner may have worked beside us

// ioredis knows no read timeout unless you set one: commandTimeout and socketTimeout must be longer than BLOCK.
// (commandTimeout only stops listening: the server goes on waiting, and may grant a lock that no caller hears of.)
export const connect = (port = 6379) => new Redis({ port });

// When the connection breaks ioredis reconnects and retries (autoResendUnfulfilledCommands): same owner, so same
// fencing token. Raw commands are not given your keyPrefix: write the lock's whole name.
export const ask = (db, ...words) => db.call(...words);

// `signal` gives up at any moment.
export async function withLock(db, ttl, how, work, signal) {
  const owner = randomUUID(); // a fresh one for each call: two calls with one owner would both be let in
  // ioredis sends everybody's commands over one connection: while one blocks, all others wait behind it, the RELEASE
  // too that would end the wait. So a call that waits has a connection of its own.
  const own = db.duplicate();
  let answered = false, fence = null, renewal;
  // A RELEASE ends its owner's wait too, by whatever connection: then ACQUIRE is answered with null. Said again, because
  // it may overtake the ACQUIRE.
  const giveUp = async () => {
    for (; !answered; await sleep(10)) await ask(db, "LOCK.RELEASE", LOCK, owner).catch(() => {});
  };
  signal?.addEventListener("abort", giveUp);
  try {
    signal?.throwIfAborted();
    fence = await ask(own, "LOCK.ACQUIRE", LOCK, owner, ttl, ...how);
    signal?.removeEventListener("abort", giveUp);
    signal?.throwIfAborted();
    if (fence === null) throw new Busy();
    const lost = new AbortController();
    renewal = setInterval(async () => {
      if (!await ask(own, "LOCK.RENEW", LOCK, owner, ttl).catch(() => 1)) lost.abort(new LockLost());
    }, ttl / 3);
    return await work(owner, signal ? AbortSignal.any([lost.signal, signal]) : lost.signal);
  } finally {
    answered = true;
    clearInterval(renewal);
    try {
      // The one way out, whatever has become of the request: a call may give up in the moment of its grant.
      // Asked twice, RELEASE answers 0 the second time: this may be a false alarm, but never a missed one.
      if (!await ask(own, "LOCK.RELEASE", LOCK, owner) && fence !== null && !signal?.aborted) throw new LockLost();
    } finally {
      own.disconnect();
    }
  }
}

// All of it or nothing, and nothing (NOTOWNER) once the lock is lost. New values and no differences (HINCRBY), because
// ioredis may ask twice.
export const write = (db, owner, values) =>
  ask(db, "LOCK.GUARD", LOCK, owner, "HSET", MARKET, ...Object.entries(values).flat());

export const sell = (db, seller, item, price) => withLock(db, 5_000, [], (owner) => // tries once
  write(db, owner, { [`${item}:owner`]: seller, [`${item}:price`]: price }));

export const buy = (db, buyer, item) => withLock(db, 5_000, ["BLOCK", BLOCK], async (owner) => { // waits in line
  const market = await db.hgetall(MARKET);
  const seller = market[`${item}:owner`], price = +market[`${item}:price`], purse = +market[`${buyer}:funds`];
  if (!price || price > purse) return false;
  await write(db, owner, {
    [`${buyer}:funds`]: purse - price, [`${seller}:funds`]: +market[`${seller}:funds`] + price,
    [`${item}:owner`]: buyer, [`${item}:price`]: 0,
  });
  return true;
});

// Longer than the ttl: withLock renews it meanwhile, and tells the work to stop when that comes too late.
export const takeStock = (db, shelves) => withLock(db, 1_000, ["BLOCK", BLOCK], (owner, lost) =>
  sleep(300 * shelves, undefined, { signal: lost }));
