// One connection for all the tasks of a process, with node-redis 5: none of them blocks it. check-queue.js runs it.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, ErrorReply } from "redis";

export const LEASE = 10_000; // for how long a place in the queue is kept after we last asked, in milliseconds
const POLL = 3_000; // poll after this long anyway: a message may be lost. Well below LEASE

export class Busy extends Error {} // there is no waiting just now: the server is being drained
export class LockLost extends Error {} // the hold ended before the work did: another owner may have worked beside us

export async function connect(port = 6379) {
  const db = createClient({ socket: { port } }).on("error", (error) => console.warn(error.message));
  const ear = db.duplicate().on("error", () => {}); // a connection that has subscribed can do little else
  await Promise.all([db.connect(), ear.connect()]);
  const channel = `locks:${randomUUID()}`, waiting = new Map(); // one for the process, a number for each request
  await ear.subscribe(channel, (number) => waiting.get(number)?.()); // done again by itself after a new connection
  return { db, ear, channel, waiting };
}

// When the connection breaks node-redis connects again, but fails the commands that were under way. So retry: same
// owner, so same place, or same fencing token.
export async function ask({ db }, ...words) {
  for (let tries = 1; ; tries++) {
    try {
      return await db.sendCommand(words.map(String));
    } catch (error) {
      if (error instanceof ErrorReply || tries === 5) throw error; // what the server has said stands
      await sleep(20 * tries); // asked at once, node-redis 5 may answer with the answer to something else, or never
    }
  }
}

export const close = ({ db, ear }) => { db.destroy(); ear.destroy(); };

let requests = 0;

// Waits for the lock in the order of arrival, works, and lets go. `signal` cancels it at any moment.
export async function withLock(locks, key, ttl, work, signal) {
  const owner = randomUUID(), number = String(requests++); // a fresh owner for each call
  let wake, fence = 0;
  locks.waiting.set(number, () => wake());
  const cancel = () => wake();
  signal?.addEventListener("abort", cancel);
  try {
    for (;;) {
      signal?.throwIfAborted();
      const woken = new Promise((resolve) => { wake = resolve; }); // before we ask: the message may be faster
      const reply = await ask(locks, "LOCK.ACQUIRE", key, owner, ttl, "QUEUE", LEASE, "NOTIFY", locks.channel, number);
      if (reply === null) throw new Busy();
      if (reply > 0) { fence = reply; break; }
      const timer = setTimeout(wake, POLL); // reply is our place in the queue: -1 is next
      await woken;
      clearTimeout(timer);
    }
    signal?.throwIfAborted();
    return await work(fence, owner);
  } finally {
    locks.waiting.delete(number);
    signal?.removeEventListener("abort", cancel);
    // The one way out, whatever has become of the request: it ends the hold, or gives up the place.
    if (!await ask(locks, "LOCK.RELEASE", key, owner) && fence) throw new LockLost();
  }
}
