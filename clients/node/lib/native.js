"use strict";

const { Beside } = require("./beside");
const { untilReplied } = require("./connection");

/** A lock, or several that are held together, by the module's commands. */
class Native {
  constructor(connection, keys, mode, { maxQueue, replicas, fair } = {}) {
    Object.assign(this, { connection, keys, mode, replicas });
    // What the first version of the module did not know.
    this.newer = fair !== undefined ? "fair needs" : replicas !== undefined ? "replicas need" : maxQueue !== undefined ? "maxQueue needs" : null;
    this.maxQueue = maxQueue === undefined ? [] : ["MAXQUEUE", maxQueue];
    this.acknowledged = replicas === undefined ? [] : ["REPLICAS", replicas];
    this.many = keys.length === 1 ? 1 : new Set(keys).size;
  }

  /** The one that says where they are, in a cluster. */
  get key() {
    return this.keys[0];
  }

  words(verb, rest) {
    if (this.keys.length === 1) return [`LOCK.${verb}`, this.key, ...rest];
    return [`LOCK.M${verb}`, this.keys.length, ...this.keys, ...rest];
  }

  say(verb, rest, read) {
    return this.connection.sayUntilReplied(this.key, this.words(verb, rest), read);
  }

  /** The reply comes when the replicas have acknowledged what has changed. */
  sayAcknowledged(verb, rest, read) {
    const words = [...rest, ...this.acknowledged];
    if (!this.replicas) return this.say(verb, words, read);
    const beside = Beside.of(this.connection), said = this.words(verb, words);
    return untilReplied(() => beside.use((connection) => connection.sayOnce(this.key, said)), read);
  }

  /** The fencing token of the hold, or the place in the queue, or null. */
  async acquire(owner, ttl, { how = [] } = {}) {
    const read = (reply) => {
      if (reply === null) return null;
      const number = Number(reply);
      return number > 0 ? { held: true, fence: number } : { held: false, place: -number };
    };
    // A try joins no queue. A place is returned at once.
    if (how.length === 0) return await this.sayAcknowledged("ACQUIRE", [owner, ttl, ...this.mode], read);
    return await this.say("ACQUIRE", [owner, ttl, ...how, ...this.mode, ...this.acknowledged, ...this.maxQueue], read);
  }

  release(owner) {
    return this.say("RELEASE", [owner], (reply, repeated) => ({ ended: Number(reply) === this.many, repeated }));
  }

  renew(owner, ttl) {
    return this.sayAcknowledged("RENEW", [owner, ttl], (reply) => Number(reply) === 1);
  }

  guard(owner, words) {
    return this.connection.sayOnce(this.key, ["LOCK.GUARD", this.key, owner, ...words]);
  }
}

module.exports = { Native };
