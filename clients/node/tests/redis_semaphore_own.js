"use strict";

// redis-semaphore's own tests of its Mutex and its Semaphore, against ours: `redis_semaphore_own.js SOURCES`, where its
// sources are unpacked. (Its package comes without them.) WITHOUT_MODULE=yes: those of its Mutex, on a bare server.

const { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { judge, outcomesOf } = require("./own");
const { freePort } = require("./server");

const CLIENT = JSON.stringify(join(__dirname, "own", "redis-client.js"));
const byDefault = (name, from = CLIENT) =>
  `Object.defineProperty(exports, "__esModule", { value: true }).default = require(${from}).${name};`;

const OURS = {
  "src/errors/LostLockError.js": byDefault("LostLockError", '"redis-lock-module"'),
  "src/RedisMutex.js": byDefault("Mutex"),
  "src/RedisSemaphore.js": byDefault("Semaphore"),
  "src/types.js": "",
  "src/utils/index.js": "exports.delay = require('node:timers/promises').setTimeout;",
  "test/redisClient.js": `module.exports = require(${CLIENT});`,
  "test/shell.js": `module.exports = require(${CLIENT});`,
};
const isPlain = process.env.WITHOUT_MODULE === "yes";
const SUITES = ["test/src/RedisMutex.test.ts", ...isPlain ? [] : ["test/src/RedisSemaphore.test.ts"]];
const LIST = isPlain ? "redis_semaphore_own_plain.txt" : "redis_semaphore_own.txt";

async function main(sources) {
  const folder = mkdtempSync(join(tmpdir(), "redis-semaphore-"));
  try {
    for (const file of [...SUITES, "test/init.test.ts", "test/setup.ts", "test/unhandledRejection.ts"]) {
      cpSync(join(sources, file), join(folder, file));
    }
    for (const [file, text] of Object.entries(OURS)) {
      mkdirSync(join(folder, file, ".."), { recursive: true });
      writeFileSync(join(folder, file), text);
    }
    const outcomes = outcomesOf(folder, [
      "--require", join(__dirname, "own", "typescript.js"), "--require", "test/setup.ts", "--timeout", "5s",
      "test/init.test.ts", ...SUITES,
    ], { CLIENT: "ioredis", OWN_PORT: await freePort() });
    const { version } = JSON.parse(readFileSync(join(sources, "package.json"), "utf8"));
    judge(`redis-semaphore ${version}${isPlain ? ", without the module" : ""}`, LIST, outcomes);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

main(process.argv[2]);
