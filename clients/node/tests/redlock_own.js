"use strict";

// redlock 4's own tests, which come with its package, with our scripts. PORT says where a server with the module is.

const { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { dirname, join } = require("node:path");
const { judge, outcomesOf } = require("./own");

// Their tests want servers where these are by default.
const PLACES = [
  ["require('redis').createClient()", "require('redis-3').createClient(process.env.PORT)"],
  ["require('redis').createClient({", "require('redis-3').createClient(process.env.PORT, {"],
  ["require('ioredis'))()", "require('ioredis-4'))(process.env.PORT)"],
  ["require('ioredis'))({db: 1}", "require('ioredis-4'))({port: process.env.PORT, db: 1}"],
  ["require('ioredis'))({db: 2}", "require('ioredis-4'))({port: process.env.PORT, db: 2}"],
  ["require('ioredis'))({db: 3}", "require('ioredis-4'))({port: process.env.PORT, db: 3}"],
];

const folder = mkdtempSync(join(tmpdir(), "redlock-"));
try {
  let text = readFileSync(join(dirname(require.resolve("redlock")), "test.js"), "utf8");
  for (const [theirs, ours] of PLACES) {
    if (text.split(theirs).length !== 2) throw new Error(`their test does not say ${theirs} once`);
    text = text.replace(theirs, ours);
  }
  writeFileSync(join(folder, "test.js"), text);
  cpSync(join(__dirname, "own", "redlock.js"), join(folder, "redlock.js"));
  // Locks of 200 milliseconds run out on a machine that is busy.
  judge("redlock 4.2.0", "redlock_own.txt", outcomesOf(folder, ["--retries", "2", "test.js"]));
} finally {
  rmSync(folder, { recursive: true });
}
