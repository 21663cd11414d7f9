// The program of docs/bullmq.md, as it stands there but for its port and its times, with workers that are killed and
// stopped. PORT says where a server with the module is.
import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { createRequire } from "node:module";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Queue } from "bullmq";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const port = +process.env.PORT;
const page = readFileSync(here("../../docs/bullmq.md"), "utf8");
const [[, program], ...others] = page.matchAll(/^```js\n(.*?)^```/gms);
assert.equal(others.length, 0);
const { version } = createRequire(import.meta.url)("bullmq/package.json");
assert(page.includes(`BullMQ ${version} `), version);
const folder = mkdtempSync(join(tmpdir(), "redis-lock-bullmq-"));
const workers = [];

function write() {
  let text = program;
  const times = {
    "6379": port, "lockTimeout: 30_000": "lockTimeout: 2_000", "lockDuration: 30_000": "lockDuration: 1_000",
    "stalledInterval: 30_000": "stalledInterval: 500", "() + 2_000": "() + 300", "concurrency: 10": "concurrency: 2",
  };
  for (const [those, these] of Object.entries(times)) {
    assert(text.includes(those), those);
    text = text.replaceAll(those, these);
  }
  // Its jobs are added by its own queue.
  writeFileSync(join(folder, "worker.js"), `${text}
process.on("message", ({ customer }) => customer && queue.add("recount", { customer }));
worker.waitUntilReady().then(() => process.send({ ready: true }));
`);
  writeFileSync(join(folder, "shop.js"), `
const waiting = new Map();
let asked = 0;
process.on("message", ({ id, rows }) => id && waiting.get(id)(rows));
exports.query = (text, values) => new Promise((done) => {
  waiting.set(++asked, (rows) => done({ rows }));
  process.send({ id: asked, text, values });
});
process.on("disconnect", () => process.exit());
`);
  mkdirSync(join(folder, "packages"));
  symlinkSync(here("../../clients/node"), join(folder, "packages/redis-lock-module"));
}

async function eventually(what, condition, within = 60_000) {
  const end = performance.now() + within;
  while (!await condition()) {
    assert(performance.now() < end, `never: ${what}`);
    await new Promise((done) => { setTimeout(done, 10); });
  }
}

// The database: a worker that has asked for a customer's orders gets them when the customer is open.
const customers = new Map();
function customer(number) {
  if (!customers.has(number)) {
    customers.set(number, { orders: [], balance: 0, fence: 0, events: [], isOpen: false, replies: [] });
  }
  return customers.get(number);
}

function open(number) {
  const one = customer(number);
  one.isOpen = true;
  for (const reply of one.replies.splice(0)) reply();
}

function query(worker, { id, text, values }) {
  const one = customer(values[0]);
  const reply = (rows) => worker.connected && worker.send({ id, rows }, () => {});
  if (text.startsWith("SELECT ")) {
    const rows = [{ balance: one.orders.reduce((sum, price) => sum + price, 0) }];
    one.events.push({ what: "began", worker });
    if (one.isOpen) reply(rows);
    else one.replies.push(() => reply(rows));
    return;
  }
  assert.match(text, /^UPDATE .* AND fence <= \$3$/);
  const [, balance, fence] = values, isLate = one.fence > fence;
  if (!isLate) Object.assign(one, { balance, fence });
  one.events.push({ what: isLate ? "refused" : "saved", worker });
  reply([]);
}

const said = (number) => customer(number).events.map(({ what }) => what).join(" ");

async function start() {
  const worker = fork(join(folder, "worker.js"), {
    cwd: folder, stdio: ["ignore", "inherit", "pipe", "ipc"],
    env: { ...process.env, NODE_PATH: `${join(folder, "packages")}:${here("node_modules")}` },
  });
  workers.push(worker);
  worker.log = "";
  worker.stderr.on("data", (data) => { worker.log += data; });
  worker.on("message", (message) => {
    if (message.ready) worker.isReady = true;
    else query(worker, message);
  });
  await eventually("the worker is ready", () => worker.isReady);
  return worker;
}

async function oneAtATimeForEachCustomer(worker, queue) {
  for (const number of [1, 1]) worker.send({ customer: number });
  await eventually("one begins", () => said(1) === "began");
  await eventually("the other is put off, which is no attempt", async () => {
    const [job, ...others] = await queue.getDelayed();
    return job?.attemptsStarted > 1 && job.attemptsMade === 0 && others.length === 0;
  });
  worker.send({ customer: 2 });
  await eventually("its slot is free", () => said(2) === "began");
  assert.equal(said(1), "began");
  for (const number of [1, 2]) open(number);
  await eventually("all are done", () => said(1) === "began saved began saved" && said(2) === "began saved");
  await eventually("none has failed", async () => await queue.getCompletedCount() === 3);
}

async function aJobWhoseWorkerIsKilledRunsAgain(worker, queue) {
  customer(3).orders.push(5);
  worker.send({ customer: 3 });
  await eventually("it runs", () => said(3) === "began");
  worker.kill("SIGKILL");
  const other = await start();
  open(3);
  await eventually("it runs again", () => said(3) === "began began saved");
  assert.equal(customer(3).events[1].worker, other);
  assert.equal(customer(3).balance, 5);
  await eventually("it is done", async () => await queue.getCompletedCount() === 4);
  return other;
}

async function aWorkerThatStoodStillWritesNothingOver(worker, queue) {
  customer(4).orders.push(5);
  worker.send({ customer: 4 });
  await eventually("it runs", () => said(4) === "began");
  worker.kill("SIGSTOP");
  customer(4).orders.push(3);
  const other = await start();
  await eventually("another worker has the job and the lock", () => said(4) === "began began");
  open(4);
  await eventually("it is done", () => customer(4).balance === 8);
  worker.kill("SIGCONT");
  await eventually("the first is refused", () => said(4) === "began began saved refused");
  assert.equal(customer(4).balance, 8);
  await eventually("BullMQ says so too", () => worker.log.includes("Missing lock for job"));
  assert.equal(await queue.getCompletedCount(), 5);
  assert.equal(await queue.getFailedCount(), 0);
  return other;
}

process.on("SIGTERM", () => process.exit(1));
process.on("exit", () => {
  for (const worker of workers) worker.kill("SIGKILL");
  rmSync(folder, { recursive: true });
});
write();
const queue = new Queue("recounts", { connection: { port } });
let worker = await start();
for (const test of [oneAtATimeForEachCustomer, aJobWhoseWorkerIsKilledRunsAgain, aWorkerThatStoodStillWritesNothingOver]) {
  const began = performance.now();
  try {
    worker = await test(worker, queue) ?? worker;
  } catch (error) {
    for (const { log } of workers) console.log(log);
    throw error;
  }
  console.log(`${test.name}: ${((performance.now() - began) / 1000).toFixed(1)} s`);
}
console.log("docs/bullmq.md does what it says");
process.exit();
