// redis-semaphore's Mutex. It puts "mutex:" before the name, so its lock "x" is the key "mutex:x".
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
import { answerEach } from "./speak.js";

const db = new Redis({ port: +process.argv[2] });
let mutex, lost;

async function acquire(key, ttl, wait = 1) {
  lost = false;
  mutex = new Mutex(db, key.replace(/^mutex:/, ""), {
    lockTimeout: +ttl, acquireTimeout: +wait, retryInterval: 20, refreshInterval: 0,
  });
  return await mutex.tryAcquire() ? mutex.identifier : null;
}

function adopt(key, identifier) {
  mutex = new Mutex(db, key.replace(/^mutex:/, ""), {
    lockTimeout: 60_000, refreshInterval: 0, identifier, acquiredExternally: true,
  });
}

// Its refresh and its release say nothing of a lock that is lost; with a refreshInterval it tells onLockLost.
answerEach({
  acquire, wait: acquire, adopt, extend: () => mutex._refresh(), release: () => mutex.release().then(() => true),
});
