"use strict";

const { randomUUID } = require("node:crypto");
const { Attempt, now } = require("./attempt");
const { Connection } = require("./connection");
const { codeOf, LostLockError, TimeoutError } = require("./errors");
const { Hold } = require("./hold");
const { Spelling } = require("./spelling");

const defaultTimeoutOptions = {
  lockTimeout: 10_000,
  acquireTimeout: 10_000,
  acquireAttemptsLimit: Number.POSITIVE_INFINITY,
  retryInterval: 10,
};

const REFRESHES_PER_TTL = 3; // so that two may fail

// Rounded up: nothing is held for no time at all.
const milliseconds = (time) => Math.max(1, Math.ceil(time));

const never = new AbortController().signal;

/** What a Mutex and a Semaphore have in common. */
class Lock {
  constructor(client, kind, space, key, mode, options = {}) {
    this._connection = new Connection(client);
    const keys = namesOf(key).map((name) => `${space}:${name}`);
    this._kind = kind;
    this._key = keys.join(", ");
    this._spelling = new Spelling(keys.map((name) => this._connection.prefix + name), mode);
    this._holds = []; // more than one only where several share the object, and the lock
    this._setTimes({ ...defaultTimeoutOptions, ...withoutHoles(options) });
    this._setOwner(options);
  }

  _setTimes({ lockTimeout, acquireTimeout, acquireAttemptsLimit, retryInterval, refreshInterval, onLockLost }) {
    this._ttl = milliseconds(lockTimeout);
    this._pause = retryInterval;
    // As many attempts as there would be if it polled. One more would be asked when they are over.
    this._patience = Math.min(acquireTimeout, acquireAttemptsLimit > 1 ? (acquireAttemptsLimit - 1) * retryInterval : 0);
    this._refreshInterval = refreshInterval ?? this._ttl / REFRESHES_PER_TTL;
    this._onLockLost = onLockLost ?? ((error) => { throw error; });
  }

  _setOwner({ identifier, acquiredExternally, externallyAcquiredIdentifier, identifierSuffix }) {
    if (identifier !== undefined && (!identifier || typeof identifier !== "string")) {
      throw new Error("identifier must be not empty random string");
    }
    if (acquiredExternally && !identifier) {
      throw new Error("acquiredExternally=true meanless without custom identifier");
    }
    if (externallyAcquiredIdentifier && (identifier || acquiredExternally)) {
      throw new Error("Invalid usage. Use custom identifier and acquiredExternally: true");
    }
    const given = identifier || externallyAcquiredIdentifier;
    this._acquiredExternally = !!acquiredExternally || !!externallyAcquiredIdentifier;
    this._ownerIsGiven = given !== undefined;
    this._freshOwner = () => given ?? randomUUID() + (identifierSuffix ? `-${identifierSuffix}` : "");
    this._nextOwner = this._freshOwner();
    this._last = null; // the attempt that was made last
  }

  /** The owner of the hold; while there is none, of the next attempt. */
  get identifier() {
    return this._hold?.owner ?? this._nextOwner;
  }

  get isAcquired() {
    return this._holds.some((hold) => hold.isHeld);
  }

  get fence() {
    return this._hold?.isHeld ? this._hold.fence : undefined;
  }

  get lost() {
    return this._latest?.over.signal ?? never;
  }

  // The latest hold that is there to be released.
  get _hold() {
    return this._holds.at(-1);
  }

  async acquire(signal) {
    if (!await this.tryAcquire(signal)) throw new TimeoutError(`Acquire ${this._kind} ${this._key} timeout`);
  }

  async tryAcquire(signal) {
    signal?.throwIfAborted();
    const granted = this._acquiredExternally ? await this._takeOver() : await this._acquire(signal);
    if (!granted) return false;
    this._holds = this._holds.filter((hold) => hold.isHeld);
    this._latest = new Hold({
      ...granted,
      ttl: this._ttl,
      interval: this._refreshInterval,
      refresh: () => this._refresh(granted.owner),
      whenLost: (hold, wasRenewed) => this._whenLost(hold, wasRenewed),
    });
    this._holds.push(this._latest);
    return true;
  }

  // Each attempt has an owner of its own: a RELEASE of one that was given up, and comes late, would end the next.
  async _acquire(signal) {
    const until = now() + this._patience;
    // By one owner nobody waits for itself: the server would take the second for the first, who asks again.
    while (this._ownerIsGiven && (this.isAcquired || this._last)) {
      signal?.throwIfAborted();
      if (now() >= until) return null;
      await new Promise((resolve) => { setTimeout(resolve, this._pause); });
    }
    const owner = this._nextOwner;
    this._nextOwner = this._freshOwner();
    const attempt = this._last = new Attempt(this._connection, this._spelling, {
      owner, ttl: this._ttl, patience: until - now(), pause: this._pause,
    });
    const running = attempt.run(signal);
    attempt.settled.then(() => { if (this._last === attempt) this._last = null; });
    const granted = await running;
    return granted && { owner, ...granted };
  }

  // What somebody else has acquired by this owner is renewed first, and asked for by its number then.
  async _takeOver() {
    const owner = this._nextOwner, asked = now();
    if (!await this._refresh(owner)) return null;
    const reply = await this._say(this._spelling.acquire(owner, this._ttl, []));
    if (reply === null) return null;
    this._acquiredExternally = false;
    return { owner, asked, fence: Number(reply) };
  }

  async _refresh(owner = this.identifier) {
    try {
      return Number(await this._say(this._spelling.renew(owner, this._ttl))) === 1;
    } catch (error) {
      if (codeOf(error) === "WRONGTYPE") return false; // it is no lock any more
      throw error;
    }
  }

  _say(words) {
    return this._connection.say(this._spelling.key, words);
  }

  stopRefresh() {
    for (const hold of this._holds) hold.stopRenewing();
  }

  async release() {
    const hold = this._holds.find((one) => one.isHeld) ?? this._hold;
    if (!hold && !this._acquiredExternally) return;
    hold?.stopRenewing();
    const reply = await this._say(this._spelling.release(hold?.owner ?? this._nextOwner));
    this._acquiredExternally = false;
    if (!hold) return;
    this._end(hold);
    if (!this._spelling.allReleased(reply)) hold.lose();
  }

  async guard(...command) {
    const hold = this._hold;
    if (!hold?.isHeld) throw new LostLockError(`Cannot guard by ${this._kind} ${this._key}, which is not held`);
    try {
      // It is not said again: what it runs may not be for twice.
      const words = this._spelling.guard(hold.owner, this._connection.spell(command));
      return await this._connection.sayOnce(this._spelling.key, words);
    } catch (error) {
      if (codeOf(error) !== "NOTOWNER") throw error;
      this._end(hold);
      hold.lose();
      throw hold.over.signal.reason;
    }
  }

  _end(hold) {
    hold.ended = true;
    hold.stop();
    this._holds = this._holds.filter((one) => one !== hold);
  }

  async _whenLost(hold, wasRenewed) {
    const error = new LostLockError(`Lost ${this._kind} for key ${this._key}`);
    hold.over.abort(error);
    if (!wasRenewed) return; // it was let go on purpose, or somebody else renews it
    if (!hold.ended) this._say(this._spelling.release(hold.owner)).catch(() => {}); // nobody has said that it is over
    this._end(hold);
    this._onLockLost.call(this, error); // what it throws is an unhandled rejection
  }
}

const withoutHoles = (options) =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));

function namesOf(key) {
  if (!key || key.length === 0) throw new Error('"key" is required');
  const names = Array.isArray(key) ? key : [key];
  for (const name of names) {
    if (typeof name !== "string") throw new Error('"key" must be a string');
    if (!name) throw new Error('"key" is required');
  }
  return names;
}

class Mutex extends Lock {
  constructor(client, key, options = {}) {
    super(client, "mutex", "mutex", key, options.shared ? ["SHARED"] : [], options);
  }
}

class Semaphore extends Lock {
  constructor(client, key, limit, options = {}) {
    super(client, "semaphore", "semaphore", key, ["LIMIT", limit], options);
    if (!limit) throw new Error('"limit" is required');
    if (typeof limit !== "number") throw new Error('"limit" must be a number');
  }
}

module.exports = { defaultTimeoutOptions, Mutex, Semaphore };
