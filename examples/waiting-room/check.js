// What visitors see of the waiting room, in a real browser. PORT says where a server with the module is.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import puppeteer from "puppeteer-core";

const LEASE = 5_000, db = new Redis({ port: +(process.env.PORT ?? 6379) });
await db.del("{shop}:room", "{shop}:sold");

// A shop of two seats, served by two processes: no visitor belongs to one of them.
const shops = await Promise.all([0, 1].map(async () => {
  const shop = spawn(process.execPath, [fileURLToPath(new URL("server.js", import.meta.url))],
    { env: { ...process.env, SEATS: 2, HTTP: 0 }, stdio: ["ignore", "pipe", "inherit"] });
  const [url] = await once(shop.stdout, "data");
  return { shop, url: String(url).trim() };
}));
const browser = await puppeteer.launch({
  executablePath: ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"].find(existsSync),
  args: ["--no-sandbox"], // root can't have one
});

let visitors = 0;
async function visits(sees) {
  const context = await browser.createBrowserContext(), page = await context.newPage(); // with cookies of its own
  await page.goto(shops[visitors++ % 2].url);
  const visitor = {
    page,
    sees: (text, within = 3_000) => page.waitForFunction( // the lease may have to end first
      (text) => document.getElementById("place").textContent === text, { timeout: within, polling: 50 }, text),
    closesTheBrowser: () => context.close(),
  };
  await visitor.sees(sees);
  return visitor;
}
const info = async () => {
  const reply = await db.call("LOCK.INFO", "{shop}:room");
  return reply && Object.fromEntries(reply.flatMap((name, at) => at % 2 ? [] : [[name, reply[at + 1]]]));
};

try {
  const ann = await visits("You are in."), bob = await visits("You are in.");
  const cid = await visits("You are number 1 in the queue."), dan = await visits("You are number 2 in the queue.");
  const eve = await visits("You are number 3 in the queue.");
  console.log("two are in, and three have a place in the queue");

  await dan.page.reload();
  await dan.sees("You are number 2 in the queue.");
  await sleep(LEASE + 1_000);
  for (const [number, visitor] of [cid, dan, eve].entries()) {
    await visitor.sees(`You are number ${number + 1} in the queue.`);
    assert.equal(await visitor.page.$eval("#buy", (button) => button.hidden), true);
  }
  console.log("who asks keeps the place, also when the page is loaded anew");

  assert.equal(await cid.page.evaluate(async () => (await fetch("/buy", { method: "POST" })).status), 403);
  await ann.page.click("#buy");
  await ann.page.waitForFunction(() =>
    document.getElementById("bought").textContent === "You have bought sword number 1.", { timeout: 3_000 });
  console.log("those inside buy, and no others");

  await dan.closesTheBrowser();
  await eve.sees("You are number 2 in the queue.", LEASE + 3_000);
  console.log("one has closed the browser in the queue: those behind move up");

  await ann.closesTheBrowser();
  await cid.sees("You are in.", LEASE + 3_000);
  await eve.sees("You are number 1 in the queue.");
  console.log("one has closed the browser inside: the next is in");

  await bob.page.click("#leave");
  await eve.sees("You are in.");
  await bob.sees("You have left.");
  console.log("one has left: the next is in at once");

  await sleep(LEASE + 1_000);
  await Promise.all([cid.sees("You are in."), eve.sees("You are in.")]);
  assert.equal((await info()).count, 2);
  for (const visitor of [cid, eve]) await visitor.page.click("#leave");
  await Promise.all([cid.sees("You have left."), eve.sees("You have left.")]);
  assert.equal(await info(), null);
  console.log("all have left, and nothing is left of them");
} finally {
  await browser.close();
  for (const { shop } of shops) shop.kill();
  db.disconnect();
}
