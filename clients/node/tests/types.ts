// What users write must be right for the compiler, and what is wrong must not be. Nothing of it is run.

import { Cluster as Cluster5, Redis as Redis5 } from "ioredis";
import { Cluster as Cluster6, Redis as Redis6 } from "ioredis-6";
import * as redis4 from "redis-4";
import * as redis5 from "redis-5";
import * as redis6 from "redis-6";
import * as theirs from "redis-semaphore";
import Redlock5 from "redlock-5";
import * as ours from "redis-lock-module";
import {
  DeadlockError, defaultTimeoutOptions, Hold, LostLockError, ModuleMissingError, Mutex, redlockScripts, Semaphore,
  TimeoutError,
} from "redis-lock-module";

const socket = { port: 6379 }, rootNodes = [{ url: "redis://127.0.0.1" }];
const one = new Redis5();
for (const client of [one, new Redis6(), new Cluster5([]), new Cluster6([])]) new Mutex(client, "market");
new Mutex(redis4.createClient({ socket }), "market");
new Mutex(redis5.createClient({ socket, RESP: 3 }), "market");
new Mutex(redis6.createClient({ socket }), "market");
new Mutex(redis4.createCluster({ rootNodes }), "market");
new Mutex(redis5.createCluster({ rootNodes }), "market");
new Mutex(redis6.createCluster({ rootNodes }), "market");
new Mutex(redis5.createClientPool({ socket }), "market");
new Mutex(redis5.createSentinel({ name: "market", sentinelRootNodes: [] }), "market");
new Mutex(redis6.createSentinel({ name: "market", sentinelRootNodes: [] }), "market");

// Whatever fits theirs fits ours.
const options: theirs.LockOptions = { lockTimeout: 1, identifier: "a", acquiredExternally: true };
new Mutex(one, "market", { ...options, onLockLost(this: Mutex, error) { this.release(); error.message.trim(); } });
const theirTimes: theirs.TimeoutOptions = defaultTimeoutOptions;
const ourTimes: ours.TimeoutOptions = theirTimes;
const either: Pick<theirs.Mutex, "acquire" | "identifier" | "isAcquired" | "release" | "stopRefresh" | "tryAcquire">[] =
  [new Mutex(one, "market", ourTimes), new Semaphore(one, "market", 3)];

async function work(mutex: Mutex, semaphore: Semaphore, signal: AbortSignal): Promise<number | undefined> {
  await mutex.acquire(signal);
  const acquired: boolean = await semaphore.tryAcquire();
  mutex.lost.throwIfAborted();
  await mutex.guard("SET", "price", 5);
  semaphore.stopRefresh();
  const error: Error | false = !acquired && (new LostLockError() || new TimeoutError() || new DeadlockError());
  await mutex.release();
  return mutex.lost.aborted && !error ? mutex.fence : either.length;
}

async function workByAHold(mutex: Mutex): Promise<number | null> {
  const hold: Hold = await mutex.acquire(), other: Hold | null = await mutex.tryHold();
  const [another] = await Promise.all([mutex.acquire(), mutex.acquire().then((one) => one.release())]);
  (another.fence ?? 0).toFixed();
  hold.lost.throwIfAborted();
  await hold.guard("SET", "price", 5);
  await hold.renew(5_000);
  await other?.release();
  await hold.release().catch((error: LostLockError) => { error.at.getTime(); });
  return hold.isHeld || hold.isReleased ? hold.fence : null;
}

for (const keyPrefix of ["", "shop:"]) {
  new Mutex(one, "market", { keyPrefix, ownerPrefix: "web", acquireTimeout: Infinity }).tryHold().then((hold) => hold?.throwIfLost());
  new Semaphore(one, ["a", "b"], 3, { keyPrefix });
}

new Semaphore(one, "market", 3, { fair: "ann", per: 2, replicas: 1 });
const strict = new Mutex(one, "market", { requireModule: true, replicas: 1 });
workByAHold(strict).catch((error) => error instanceof ModuleMissingError);

new Mutex(one, ["{a}:one", "{a}:two"], { shared: true });
new Redlock5([], {}, redlockScripts);
work(new Mutex(one, "market"), new Semaphore(one, "market", 3), new AbortController().signal);

// @ts-expect-error
new Mutex("market");
// @ts-expect-error
new Semaphore(one, "market", "3");
// @ts-expect-error
new Semaphore(one, "market", 3, { shared: true });
// @ts-expect-error
new Mutex(one, "market", { fair: "ann" });
// @ts-expect-error
new Mutex(one, "market").fence.toFixed();
// @ts-expect-error
new Mutex(one, "market").acquire().then((hold) => hold.fence.toFixed());
// @ts-expect-error
new Mutex(one, "market", { lockTimeout: "10" });
// @ts-expect-error
new Mutex(one, "market", { lockTimout: 10 });
