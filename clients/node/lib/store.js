"use strict";

// What becomes of a lock on its server: by the module's commands, and without the module by the server's own.

const { codeOf, isUnknown, maySaySomethingElse, ModuleMissingError } = require("./errors");
const { Native } = require("./native");
const { Plain } = require("./plain");

// For how long a server is taken to lack the module, in milliseconds: it may be loaded while we stay connected.
const ASKED_AGAIN_AFTER = 5_000;

const FIRST_PAUSE = 50, LONGEST_PAUSE = 1_000; // between releases in the background, in milliseconds

/** What a client has found out about its server. */
class Server {
  static #servers = new WeakMap();

  static of(connection) {
    const { client } = connection;
    if (!Server.#servers.has(client)) Server.#servers.set(client, new Server(connection));
    return Server.#servers.get(client);
  }

  constructor(connection) {
    this.waiting = new Map(); // what wakes those of this client who wait without the module, by key and in order
    this.forget();
    // It may be another one, or have been started anew.
    connection.client.on?.("ready", () => this.forget());
  }

  forget() {
    this.missingSince = null;
    this.version = ""; // of the module, once that matters
    this.deletesBy = 0; // the first command that is not known to be missing
    this.hasIfeq = true;
    this.longestLease = 60_000; // of a place, unless an operator allows less
  }

  get lacksModule() {
    return this.missingSince !== null && performance.now() - this.missingSince < ASKED_AGAIN_AFTER;
  }

  hasNoModule() {
    this.missingSince = performance.now();
    if (this.hasWarned) return;
    this.hasWarned = true;
    process.emitWarning("this server has not loaded the redis-lock module: locks are taken by SET NX, and requests " +
      "that wait poll", { type: "RedisLockWarning", code: "REDIS_LOCK_WITHOUT_MODULE" });
  }

  join(key, wake) {
    if (!this.waiting.has(key)) this.waiting.set(key, new Set());
    this.waiting.get(key).add(wake);
  }

  leave(key, wake) {
    const queue = this.waiting.get(key);
    if (queue?.delete(wake) && queue.size === 0) this.waiting.delete(key);
  }

  wakeNext(key) {
    const [wake] = this.waiting.get(key) ?? [];
    wake?.();
  }
}

class Store {
  /** `needsModule`: the beginning of a sentence, if there is no other way. */
  constructor(connection, keys, mode, needsModule, options) {
    this.server = Server.of(connection);
    this.native = new Native(connection, keys, mode, options);
    this.plain = new Plain(connection, keys[0], this.server, options?.replicas);
    this.needsModule = needsModule;
  }

  /** There are no places in a queue here. */
  get isPlain() {
    return !this.needsModule && this.server.lacksModule;
  }

  async do(verb, words, options) {
    let inDoubt = options?.inDoubt;
    if (!this.isPlain) {
      try {
        return await this.native[verb](...words, options);
      } catch (error) {
        if (!isUnknown(error, "LOCK.")) throw error;
        if (this.needsModule) throw new ModuleMissingError(this.needsModule, { cause: error });
        this.server.hasNoModule();
        inDoubt ||= error.repeated;
      }
    }
    return await this.plain[verb](...words, { inDoubt });
  }

  /** Null, or a place, or that it is held. `inDoubt`: this owner has asked before, and may have come to hold it. */
  acquire(owner, ttl, options) {
    const asking = this.do("acquire", [owner, ttl], options);
    if (!this.native.newer) return asking;
    return asking.catch(async (error) => {
      if (!/^ERR syntax error/.test(error.message)) throw error;
      const version = await this.version();
      throw /^(1\.|$)/.test(version) ? new ModuleMissingError(this.native.newer, { cause: error, version }) : error;
    });
  }

  /** That of the server's module, asked for once; empty if it does not say. */
  async version() {
    const { connection, key } = this.native;
    const info = this.server.version ? "" : await connection.say(key, ["INFO", "lock"]).catch(() => "");
    return this.server.version ||= /lock_version:(\S+)/.exec(info)?.[1] ?? "";
  }

  /** `ended`: it was held until now. `repeated`: if it was not, then an earlier request may have ended it. */
  release(owner) {
    return this.do("release", [owner]);
  }

  async renew(owner, ttl) {
    try {
      return await this.do("renew", [owner, ttl]);
    } catch (error) {
      if (codeOf(error) === "WRONGTYPE") return false; // it is no lock any more
      throw error;
    }
  }

  /** Until there is a reply, or nothing is left of what this owner had. It keeps no process alive. */
  async releaseUntilReplied(owner, until) {
    for (let pause = FIRST_PAUSE; performance.now() < until && !this.native.connection.isClosed; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
      await new Promise((resolve) => { setTimeout(resolve, pause).unref(); });
      try {
        return await this.release(owner);
      } catch (error) {
        if (!maySaySomethingElse(error)) return;
      }
    }
  }

  /** Where there is no queue, `wake` is called when this process releases the lock and no other has waited longer. */
  join(wake) {
    this.server.join(this.plain.key, wake);
  }

  leave(wake) {
    this.server.leave(this.plain.key, wake);
  }

  guard(owner, words) {
    return this.do("guard", [owner, words]);
  }
}

module.exports = { Store };
