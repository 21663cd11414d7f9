"use strict";

// An exclusive lock of one key, on a server without the module: the same key, the same value, the same expiry.

const { Beside } = require("./beside");
const { untilReplied } = require("./connection");
const { codeOf, isUnknown } = require("./errors");

const REPLICAS_TAKE = 1_000; // milliseconds at most, as by default with the module

// Where the server has no command that compares, a script does. WATCH and MULTI would need a connection for each lock
// that is just being renewed, since everybody shares this one, and what one watches all would.
const IS_OWNER = "redis.pcall('get', KEYS[1]) == ARGV[1]";
const RELEASE = `return ${IS_OWNER} and redis.call('del', KEYS[1]) or 0`;
const RENEW = `return ${IS_OWNER} and redis.call('pexpire', KEYS[1], ARGV[2]) or 0`;
// The reply is in the form of RESP2, whichever the client speaks: by RESP3 a script would cut an array at its first null.
const GUARD = `
  if not (${IS_OWNER}) then return redis.error_reply('NOTOWNER this owner does not hold the lock') end
  return redis.pcall(unpack(ARGV, 2))
`;

const DELETES = [
  ["DELEX", (key, owner) => ["DELEX", key, "IFEQ", owner]], // Redis 8.4
  ["DELIFEQ", (key, owner) => ["DELIFEQ", key, owner]], // Valkey 9.0
  ["EVAL", (key, owner) => ["EVAL", RELEASE, 1, key, owner]],
];

// The latter is DELEX's.
const isNoString = (error) => codeOf(error) === "WRONGTYPE" || /should be of string type/i.test(error.message);

class Plain {
  /** `server` is what is known of it. */
  constructor(connection, key, server, replicas) {
    Object.assign(this, { connection, key, server, replicas });
  }

  /** The reply comes when the replicas have acknowledged what has changed. */
  sayAcknowledged(words, read) {
    if (!this.replicas) return this.connection.sayUntilReplied(this.key, words, read);
    const beside = Beside.of(this.connection);
    return untilReplied(() => beside.use((connection) => this.sayAndWait(connection, words)), read);
  }

  // In one pipeline.
  async sayAndWait(connection, words) {
    const { key, replicas } = this;
    const [said, waited] = await Promise.allSettled([
      connection.sayOnce(key, words), connection.sayOnce(key, ["WAIT", replicas, REPLICAS_TAKE]),
    ]);
    if (said.status === "rejected") throw said.reason;
    if (said.value === null || said.value === 0) return said.value;
    if (waited.status === "rejected") {
      if (codeOf(waited.reason) === undefined) throw waited.reason;
      throw new Error(`NOREPLICAS WAIT is refused: ${waited.reason.message}`, { cause: waited.reason });
    }
    if (Number(waited.value) >= replicas) return said.value;
    throw new Error(`NOREPLICAS ${waited.value} of ${replicas} replicas have acknowledged it within ${REPLICAS_TAKE} milliseconds`);
  }

  /** `inDoubt`: this owner has asked before, and was not told. */
  async acquire(owner, ttl, { inDoubt = false } = {}) {
    const words = ["SET", this.key, owner, "NX", "PX", ttl];
    const { reply, repeated } = await this.sayAcknowledged(words);
    const held = reply !== null || ((repeated || inDoubt) && await this.renew(owner, ttl));
    return held ? { held: true, fence: null } : null;
  }

  /** `inDoubt`: this owner has released it before, and was not told. */
  async release(owner, { inDoubt = false } = {}) {
    const { server } = this;
    for (let repeated = inDoubt; ;) {
      const at = server.deletesBy, [command, words] = DELETES[at];
      try {
        const said = await this.connection.sayUntilReplied(this.key, words(this.key, owner)), ended = Number(said.reply) === 1;
        if (ended) server.wakeNext(this.key);
        return { ended, repeated: repeated || said.repeated };
      } catch (error) {
        repeated ||= error.repeated;
        if (isNoString(error)) return { ended: false, repeated };
        const isMissing = isUnknown(error, command) || codeOf(error) === "NOPERM";
        if (!isMissing || at === DELETES.length - 1) throw error;
        server.deletesBy = Math.max(server.deletesBy, at + 1);
      }
    }
  }

  async renew(owner, ttl) {
    const { server } = this;
    try {
      if (server.hasIfeq) {
        return await this.sayAcknowledged(["SET", this.key, owner, "IFEQ", owner, "PX", ttl], (reply) => reply !== null);
      }
    } catch (error) {
      if (isNoString(error)) return false;
      if (!/syntax error/i.test(error.message)) throw error;
      server.hasIfeq = false;
    }
    return await this.sayAcknowledged(["EVAL", RENEW, 1, this.key, owner, ttl], (reply) => Number(reply) === 1);
  }

  guard(owner, words) {
    return this.connection.sayOnce(this.key, ["EVAL", GUARD, 1, this.key, owner, ...words]);
  }
}

module.exports = { Plain };
