// redis-semaphore's Mutex. It puts "mutex:" before the name, so its lock "x" is the key "mutex:x".
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
import { answerEach } from "./speak.js";

const db = new Redis({ port: +process.argv[2] });
let mutex;

// A try is one attempt: with an acquireTimeout of a millisecond it may make none.
async function ask(key, ttl, limits) {
  mutex = new Mutex(db, key.replace(/^mutex:/, ""), {
    lockTimeout: +ttl, retryInterval: 20, refreshInterval: 0, ...limits,
  });
  return await mutex.tryAcquire() ? mutex.identifier : null;
}

const acquire = (key, ttl) => ask(key, ttl, { acquireTimeout: 10_000, acquireAttemptsLimit: 1 });
const wait = (key, ttl, time) => ask(key, ttl, { acquireTimeout: +time });

function adopt(key, identifier) {
  mutex = new Mutex(db, key.replace(/^mutex:/, ""), {
    lockTimeout: 60_000, refreshInterval: 0, identifier, acquiredExternally: true,
  });
}

// Its refresh and its release say nothing of a lock that is lost; with a refreshInterval it tells onLockLost.
answerEach({
  acquire, wait, adopt, extend: () => mutex._refresh(), release: () => mutex.release().then(() => true),
});
