// redlock (npm), version 4, with one server.
import { Redis } from "ioredis";
import Redlock from "redlock";
import { answerEach } from "./speak.js";

const db = new Redis({ port: +process.argv[2] });
let lock;

async function acquire(key, ttl, wait = 0) {
  const redlock = new Redlock([db], { retryCount: Math.ceil(wait / 20), retryDelay: 20, retryJitter: 0 });
  const got = await redlock.lock(key, +ttl).catch(() => null);
  lock = got ?? lock;
  return got?.value;
}

function adopt(key, token) {
  lock = new Redlock.Lock(new Redlock([db]), [key], token, Date.now() + 60_000, 1, 0);
}

const honest = (asked) => asked.then(() => true, () => false);

answerEach({
  acquire, wait: acquire, adopt, extend: (ttl) => honest(lock.extend(+ttl)), release: () => honest(lock.unlock()),
});
