"use strict";

// Adds to a number by reading it, thinking, and writing it, under the lock: two at a time would lose an addition.
// worker.js theirs|ours CLIENT PORT MILLISECONDS KEY OPTIONS

const { setTimeout: sleep } = require("node:timers/promises");
const { CLIENTS } = require("./clients");

async function main(whose, name, port, lasts, key, options) {
  const { Mutex } = require(whose === "ours" ? "redis-lock-module" : "redis-semaphore");
  const { client, ask, close } = await CLIENTS[name].connect(+port);
  const end = performance.now() + +lasts;
  let done = 0, beside = 0;
  while (performance.now() < end) {
    const mutex = new Mutex(client, key, JSON.parse(options));
    await mutex.acquire();
    beside += +await ask("INCR", `inside:${key}`) - 1;
    const number = +(await ask("GET", `number:${key}`) ?? 0);
    await sleep(1);
    await ask("SET", `number:${key}`, number + 1);
    await ask("DECR", `inside:${key}`);
    await mutex.release();
    done++;
    await sleep(Math.random() * 20); // a queue that is never empty would never let those in who poll
  }
  close();
  process.send({ whose, done, beside }, () => process.disconnect());
}

process.once("disconnect", () => process.exit()); // the process that started it is gone
main(...process.argv.slice(2));
