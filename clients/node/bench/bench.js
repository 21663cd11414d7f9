"use strict";

// Measures this package's Mutex beside redis-semaphore's, both by ioredis, on one server:
//
//   npm ci --prefix clients/node/tests && node clients/node/bench/bench.js 127.0.0.1:6379
//
// Each figure is the median of the rounds, in which the two take turns. A pair is an acquire and a release that nothing
// else wants, by a new Mutex each time.

const { createRequire } = require("node:module");
const { Mutex } = require("..");

const installed = createRequire(require.resolve("../tests/package.json"));
const Redis = installed("ioredis");
const theirs = installed("redis-semaphore");

const ROUNDS = 9, PAIRS = 3_000;
const options = { lockTimeout: 30_000 };

async function measure(Lock, client, pairs) {
  const began = performance.now(), cpu = process.cpuUsage();
  for (let i = 0; i < pairs; i++) {
    const mutex = new Lock(client, "bench", options);
    await mutex.acquire();
    await mutex.release();
  }
  const { user, system } = process.cpuUsage(cpu);
  return { wall: (performance.now() - began) * 1_000 / pairs, cpu: (user + system) / pairs };
}

const median = (all) => all.sort((a, b) => a - b)[all.length >> 1];

async function main([address = "127.0.0.1:6379"]) {
  const [host, port] = address.split(":");
  const client = new Redis({ host, port });
  const ways = [["redis-lock-module", Mutex, []], ["redis-semaphore", theirs.Mutex, []]];
  for (let round = -1; round < ROUNDS; round++) {
    for (const [, Lock, figures] of round % 2 ? ways : [...ways].reverse()) {
      const one = await measure(Lock, client, PAIRS);
      if (round >= 0) figures.push(one); // the first one warms up
    }
  }
  for (const [name, , figures] of ways) {
    const [wall, cpu] = ["wall", "cpu"].map((which) => median(figures.map((one) => one[which])));
    console.log(`${name.padEnd(20)}${wall.toFixed(1).padStart(8)} us for a pair${cpu.toFixed(1).padStart(8)} us of CPU`);
  }
  const of = (way, which) => median(way[2].map((one) => one[which]));
  console.log(`ratio${(of(ways[0], "wall") / of(ways[1], "wall")).toFixed(2).padStart(23)}${(of(ways[0], "cpu") / of(ways[1], "cpu")).toFixed(2).padStart(22)}`);
  client.disconnect();
}

main(process.argv.slice(2));
