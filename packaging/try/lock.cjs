// The installed package locks on the server at PORT.
const assert = require("node:assert");
const Redis = require("ioredis");
const { Mutex } = require("redis-lock-module");

const client = new Redis(Number(process.env.PORT), "127.0.0.1");
const mutex = new Mutex(client, "tried");

async function main() {
  const hold = await mutex.acquire();
  assert(await client.call("LOCK.INFO", "mutex:tried"), "not held");
  assert(hold.fence > 0);
  await hold.guard("SET", "tried:price", 5);
  await hold.release();
  assert.equal(await client.call("LOCK.INFO", "mutex:tried"), null, "not released");
  console.log("  Node: locks");
}

main().finally(() => client.disconnect());
