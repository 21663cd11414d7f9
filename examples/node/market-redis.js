// The market under a lock, with node-redis 5. check.js beside it runs it.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createClientPool, ErrorReply } from "redis";

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
export const MARKET = "{market}:goods", LOCK = "{market}:lock";
export const BLOCK = 10_000; // for how long to wait for the lock, in milliseconds

export class Busy extends Error {} // others have the market
export class LockLost extends Error {} // the hold ended before the work did: another owner may have worked beside us

// node-redis reads for as long as it takes: its timeout of 5 seconds is for commands that are not sent yet. But a
// socketTimeout, if you set one, must be longer than BLOCK. The pool's maximum (100 connections) is how many can wait
// at once: the next one gives up after acquireTimeout (3 seconds).
export const connect = (port = 6379) =>
  createClientPool({ socket: { port } }, { acquireTimeout: BLOCK })
    .on("error", (error) => console.warn(error.message))
    .connect();

// When the connection breaks node-redis connects again, but fails the commands that were under way. So retry: same
// owner, so same fencing token.
export async function ask(db, ...words) {
  for (let tries = 1; ; tries++) {
    try {
      return await db.sendCommand(words.map(String));
    } catch (error) {
      if (error instanceof ErrorReply || tries === 5) throw error; // what the server has said stands
      await sleep(20 * tries); // asked at once, node-redis 5 may answer with the answer to something else, or never
    }
  }
}

// A single client sends everybody's commands over one connection: while one blocks, all others wait behind it, the
// RELEASE too that would end the wait. So a call that waits takes a connection out of the pool.
// `signal` gives up at any moment.
export const withLock = (pool, ttl, how, work, signal) => pool.execute(async (own) => {
  const owner = randomUUID(); // a fresh one for each call: two calls with one owner would both be let in
  let answered = false, fence = null, renewal;
  // A RELEASE ends its owner's wait too, by whatever connection: then ACQUIRE is answered with null. Said again, because
  // it may overtake the ACQUIRE.
  const giveUp = async () => {
    for (; !answered; await sleep(10)) await ask(pool, "LOCK.RELEASE", LOCK, owner).catch(() => {});
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
    // The one way out, whatever has become of the request: a call may give up in the moment of its grant.
    // Asked twice, RELEASE answers 0 the second time: this may be a false alarm, but never a missed one.
    if (!await ask(own, "LOCK.RELEASE", LOCK, owner) && fence !== null && !signal?.aborted) throw new LockLost();
  }
});

// All of it or nothing, and nothing (NOTOWNER) once the lock is lost. New values and no differences (HINCRBY), because
// ask() may ask twice.
export const write = (db, owner, values) =>
  ask(db, "LOCK.GUARD", LOCK, owner, "HSET", MARKET, ...Object.entries(values).flat());

export const sell = (db, seller, item, price) => withLock(db, 5_000, [], (owner) => // tries once
  write(db, owner, { [`${item}:owner`]: seller, [`${item}:price`]: price }));

export const buy = (db, buyer, item) => withLock(db, 5_000, ["BLOCK", BLOCK], async (owner) => { // waits in line
  const market = await db.hGetAll(MARKET);
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
