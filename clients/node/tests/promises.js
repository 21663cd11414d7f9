"use strict";

// The program by which tests/clients/promises tests this package. Its lines are described in program.py there.

const { createInterface } = require("node:readline");
const { DeadlockError, LostLockError, ModuleMissingError, Mutex, Semaphore, TimeoutError } = require("..");
const { CLIENTS } = require("./clients");

process.removeAllListeners("warning"); // of a loss, or that the module is missing

const holds = [], losses = [];
let kind, client, close, cancelling;

function lockOf(keys, ttl, words) {
  const given = Object.fromEntries(words.map((word) => word.split("=")));
  const options = {
    keyPrefix: "", lockTimeout: +ttl, refreshInterval: "renew" in given ? undefined : 0,
    acquireTimeout: { undefined: 0, forever: Infinity }[given.wait] ?? +given.wait,
    identifier: given.owner, ownerPrefix: given.prefix, requireModule: "module" in given,
    maxQueue: given["max-queue"] && +given["max-queue"], onLockLost() {}, replicas: given.replicas && +given.replicas,
  };
  if ("fair" in given) options.fair = given.fair;
  if ("per" in given) options.per = +given.per;
  const key = keys.includes(",") ? keys.split(",") : keys;
  if (given.limit) return new Semaphore(client, key, +given.limit, options);
  return new Mutex(client, key, { ...options, shared: "shared" in given });
}

const verbs = {
  async connect(port) {
    ({ client, close } = await CLIENTS[kind].connect(+port));
    return "ready";
  },
  async acquire(keys, ttl, ...words) {
    const lock = lockOf(keys, ttl, words);
    cancelling = words.includes("cancellable") ? new AbortController() : undefined;
    const hold = await lock.acquire(cancelling?.signal);
    const number = holds.push(hold) - 1;
    losses.push(0);
    hold.lost.addEventListener("abort", () => { losses[number]++; });
    return `hold ${number} ${hold.fence ?? "-"}`;
  },
  async release(number) {
    await holds[number].release();
    return "ok";
  },
  async renew(number, ttl) {
    await holds[number].renew(+ttl);
    return "ok";
  },
  held: async (number) => (holds[number].isHeld ? "yes" : "no"),
  guard: async (number, ...command) => `reply ${await holds[number].guard(...command)}`,
  losses: async (number) => `${losses[number]}`,
  forked: async () => "cannot",
};

function wordFor(error) {
  const text = `${error?.message}`.replaceAll(/\s+/g, " ");
  if (error instanceof LostLockError) return "lost";
  if (error instanceof TimeoutError) return "busy";
  if (error instanceof ModuleMissingError) return `missing ${text}`;
  if (error instanceof DeadlockError) return `refused ${text}`;
  if (error === cancelling?.signal.reason) return "cancelled";
  if (error instanceof TypeError || error instanceof RangeError) return `invalid ${text}`;
  return `${/^[A-Z]{2,} /.test(text) ? "refused" : "unknown"} ${text}`;
}

async function main() {
  kind = process.argv[2];
  console.log(await verbs.connect(process.argv[3]));
  let before = Promise.resolve();
  for await (const line of createInterface({ input: process.stdin })) {
    const [verb, ...words] = line.split(" ");
    if (verb === "cancel") cancelling?.abort();
    else if (verb === "rest") close();
    else before = before.then(() => verbs[verb](...words)).catch(wordFor).then((reply) => console.log(reply));
  }
  process.exit();
}

main();
