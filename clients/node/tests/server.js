"use strict";

// A server of a test's own. REDIS_SERVER and REDIS_LOCK_MODULE say what it is started from.

const { spawn } = require("node:child_process");
const { appendFileSync, mkdtempSync, openSync, readFileSync, rmSync } = require("node:fs");
const { createServer } = require("node:net");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");
const Redis = require("ioredis");

async function eventually(condition, what = "this never came", within = 20_000) {
  for (const end = performance.now() + within; ; await sleep(5)) {
    const found = await condition();
    if (found) return found;
    if (performance.now() > end) throw new Error(typeof what === "function" ? await what() : what);
  }
}

// One of those to which a cluster's node can add 10,000.
async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 12_000);
    if (await isFree(port) && await isFree(port + 10_000)) return port;
  }
}

const isFree = (port) => new Promise((resolve) => {
  const socket = createServer().once("error", () => resolve(false));
  socket.listen(port, "127.0.0.1", () => socket.close(() => resolve(true)));
});

class Server {
  static async start(options = [], { sentinel = false, module = !sentinel, port, config = "", program = process.env.REDIS_SERVER } = {}) {
    const server = new Server();
    server.port = port ?? await freePort();
    server.program = program;
    server.folder = mkdtempSync(join(tmpdir(), "redis-lock-"));
    server.module = module ? ["--loadmodule", process.env.REDIS_LOCK_MODULE] : [];
    appendFileSync(join(server.folder, "server.conf"), config); // a Sentinel writes to it
    server.options = [...(sentinel ? ["--sentinel"] : ["--save", ""]), ...options];
    await server.up();
    return server;
  }

  async up() {
    const log = join(this.folder, "log"), out = openSync(log, "a");
    this.process = spawn(this.program, [
      join(this.folder, "server.conf"), "--port", this.port, "--bind", "127.0.0.1", "--dir", this.folder, ...this.options, ...this.module,
    ].map(String), { stdio: ["ignore", out, out] });
    this.db ??= new Redis({ port: this.port, retryStrategy: () => 20, maxRetriesPerRequest: null }).on("error", () => {});
    await eventually(async () => {
      if (this.process.exitCode !== null) throw new Error(readFileSync(log, "utf8"));
      return await Promise.race([this.db.ping().catch(() => false), sleep(200)]) === "PONG";
    }, () => readFileSync(log, "utf8"));
  }

  async kill() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = new Promise((resolve) => { this.process.once("exit", resolve); });
    this.process.kill("SIGKILL");
    await gone;
  }

  async stop() {
    this.db.disconnect();
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

module.exports = { eventually, freePort, Server };
