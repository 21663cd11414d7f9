"use strict";

/** The commands of one lock, or of several that are held together. */
class Spelling {
  constructor(keys, mode) {
    this.keys = keys;
    this.mode = mode;
    this.many = new Set(keys).size;
  }

  /** The one that says where they are, in a cluster. */
  get key() {
    return this.keys[0];
  }

  command(verb, ...words) {
    if (this.keys.length === 1) return [`LOCK.${verb}`, this.key, ...words];
    return [`LOCK.M${verb}`, this.keys.length, ...this.keys, ...words];
  }

  acquire(owner, ttl, how) {
    return this.command("ACQUIRE", owner, ttl, ...how, ...this.mode);
  }

  release(owner) {
    return this.command("RELEASE", owner);
  }

  renew(owner, ttl) {
    return this.command("RENEW", owner, ttl);
  }

  guard(owner, words) {
    return ["LOCK.GUARD", this.key, owner, ...words];
  }

  allReleased(reply) {
    return Number(reply) === this.many;
  }
}

module.exports = { Spelling };
