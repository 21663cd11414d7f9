"use strict";

/** A lock, or several that are held together, by the module's commands. */
class Native {
  constructor(connection, keys, mode, maxQueue) {
    Object.assign(this, { connection, keys, mode });
    this.maxQueue = maxQueue === undefined ? [] : ["MAXQUEUE", maxQueue];
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

  /** The fencing token of the hold, or the place in the queue, or null. */
  acquire(owner, ttl, { how = [] } = {}) {
    // A try joins no queue.
    const maxQueue = how.length > 0 ? this.maxQueue : [];
    return this.say("ACQUIRE", [owner, ttl, ...how, ...this.mode, ...maxQueue], (reply) => {
      if (reply === null) return null;
      const number = Number(reply);
      return number > 0 ? { held: true, fence: number } : { held: false, place: -number };
    });
  }

  release(owner) {
    return this.say("RELEASE", [owner], (reply, repeated) => ({ ended: Number(reply) === this.many, repeated }));
  }

  renew(owner, ttl) {
    return this.say("RENEW", [owner, ttl], (reply) => Number(reply) === 1);
  }

  guard(owner, words) {
    return this.connection.sayOnce(this.key, ["LOCK.GUARD", this.key, owner, ...words]);
  }
}

module.exports = { Native };
