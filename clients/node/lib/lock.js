"use strict";

const { randomUUID } = require("node:crypto");
const { Attempt, now } = require("./attempt");
const { Connection } = require("./connection");
const { codeOf, LostLockError, TimeoutError } = require("./errors");
const { begin, holdOf } = require("./flow");
const { Hold } = require("./hold");
const { checked, checkKeys, checkLimit, checkShared, checkSignal } = require("./options");
const { Store } = require("./store");

const defaultTimeoutOptions = {
  lockTimeout: 10_000,
  acquireTimeout: 10_000,
  acquireAttemptsLimit: Number.POSITIVE_INFINITY,
  retryInterval: 10,
};

const REFRESHES_PER_TTL = 3; // so that two may fail

/** What a Mutex and a Semaphore have in common. */
class Lock {
  constructor(client, kind, key, { mode = [], needsModule = null, options }) {
    this._connection = Connection.of(client);
    const keys = checkKeys(key).map((name) => `${kind}:${name}`);
    const all = checked(options, defaultTimeoutOptions);
    if (keys.length > 1) needsModule ??= "several keys at once need";
    if (all.requireModule) needsModule ??= "requireModule asks for";
    if (all.maxQueue !== undefined) needsModule ??= "maxQueue needs";
    this._kind = kind;
    this._key = keys.join(", ");
    this._store = new Store(this._connection, keys.map((name) => this._connection.prefix + name), mode, needsModule, all.maxQueue);
    this._holds = []; // more than one only where several share the object, and the lock; the latest is the last
    this._nextOver = new AbortController(); // of the next hold: also for code that asks for `lost` before that
    this._setTimes(all);
    this._setOwner(all);
  }

  _setTimes({ lockTimeout, acquireTimeout, acquireAttemptsLimit, retryInterval, refreshInterval, onLockLost }) {
    this._ttl = Math.ceil(lockTimeout);
    this._pause = retryInterval;
    // As many attempts as there would be if it polled. One more would be asked when they are over.
    this._patience = Math.min(acquireTimeout, acquireAttemptsLimit > 1 ? (acquireAttemptsLimit - 1) * retryInterval : 0);
    this._refreshInterval = refreshInterval ?? this._ttl / REFRESHES_PER_TTL;
    this._onLockLost = onLockLost ?? ((error) => process.emitWarning(error));
  }

  _setOwner({ identifier, acquiredExternally, externallyAcquiredIdentifier, identifierSuffix }) {
    const given = identifier || externallyAcquiredIdentifier;
    this._acquiredExternally = !!acquiredExternally || !!externallyAcquiredIdentifier;
    this._ownerIsGiven = given !== undefined;
    this._freshOwner = () => given ?? randomUUID() + (identifierSuffix ? `-${identifierSuffix}` : "");
    this._nextOwner = this._freshOwner();
    this._last = null; // the attempt that was made last
  }

  /** The owner of the hold; while there is none, of the next attempt. */
  get identifier() {
    return this._hold?.identifier ?? this._nextOwner;
  }

  get isAcquired() {
    return this._holds.length > 0;
  }

  get fence() {
    return this._hold?.fence ?? undefined;
  }

  get lost() {
    return (this._latestOver ?? this._nextOver).signal;
  }

  get _hold() {
    return this._holds.at(-1);
  }

  // None of these is an async function: the flow that calls is marked before anything is waited for.
  acquire(signal) {
    return this._acquireIn(begin(this), signal).then((hold) => {
      if (!hold) throw new TimeoutError(`Acquire ${this._kind} ${this._key} timeout`);
      return hold;
    });
  }

  tryAcquire(signal) {
    return this.tryHold(signal).then((hold) => hold !== null);
  }

  tryHold(signal) {
    return this._acquireIn(begin(this), signal);
  }

  async _acquireIn(acquiring, signal) {
    try {
      checkSignal(signal);
      signal?.throwIfAborted();
      const granted = this._acquiredExternally ? await this._takeOver() : await this._acquire(signal);
      if (!granted) return null;
      const over = this._latestOver = this._nextOver;
      this._nextOver = new AbortController();
      return acquiring.hold = this._keep(new Hold(this, { ...granted, ttl: this._ttl, interval: this._refreshInterval, over }));
    } finally {
      acquiring.isOver = acquiring.hold === null;
    }
  }

  _keep(hold) {
    if (hold.isHeld) this._holds.push(hold);
    return hold;
  }

  // Each attempt has an owner of its own: a RELEASE of one that was given up, and comes late, would end the next.
  async _acquire(signal) {
    const until = now() + this._patience;
    // An owner does not wait for itself: the server would take the second for the first, who asks again.
    while (this._ownerIsGiven && (this.isAcquired || this._last)) {
      signal?.throwIfAborted();
      if (now() >= until) return null;
      await new Promise((resolve) => { setTimeout(resolve, this._pause); });
    }
    const owner = this._nextOwner;
    this._nextOwner = this._freshOwner();
    const attempt = this._last = new Attempt(this._connection, this._store, {
      owner, ttl: this._ttl, patience: until - now(), pause: this._pause,
    });
    const running = attempt.run(signal);
    attempt.settled.then(() => { if (this._last === attempt) this._last = null; });
    const granted = await running;
    return granted && { owner, ...granted };
  }

  // What another process has acquired by this owner is renewed first, and asked for by its number then.
  async _takeOver() {
    const owner = this._nextOwner, asked = now();
    if (!await this._refresh(owner)) return null;
    const reply = await this._store.acquire(owner, this._ttl, { inDoubt: true });
    if (!reply?.held) return null;
    this._acquiredExternally = false;
    return { owner, asked, fence: reply.fence };
  }

  async _refresh(owner = this.identifier, ttl = this._ttl) {
    try {
      return await this._store.renew(owner, ttl);
    } catch (error) {
      if (codeOf(error) === "WRONGTYPE") return false; // it is no lock any more
      throw error;
    }
  }

  _guard(owner, command) {
    return this._store.guard(owner, this._connection.spell(command));
  }

  stopRefresh() {
    for (const hold of this._holds) hold.stopRefresh();
  }

  async release() {
    const hold = holdOf(this) ?? this._holds[0];
    if (hold) {
      // As in redis-semaphore, a lock that was lost may be released. That it was lost is told by `lost`.
      await hold.release().catch((error) => { if (!(error instanceof LostLockError)) throw error; });
    } else if (this._acquiredExternally) {
      await this._store.release(this._nextOwner);
    }
    this._acquiredExternally = false;
  }

  async guard(...command) {
    const hold = holdOf(this) ?? this._hold;
    if (!hold) throw new LostLockError(`Cannot guard by ${this._kind} ${this._key}, which is not held`, { key: this._key });
    return await hold.guard(...command);
  }

  // What a hold says of itself.

  _lostError({ identifier, fence }, why) {
    const cause = new Error(why);
    return new LostLockError(`Lost ${this._kind} for key ${this._key}`, { key: this._key, identifier, fence, cause });
  }

  _forget(hold) {
    this._holds = this._holds.filter((one) => one !== hold);
    if (!hold.lost.aborted && this._latestOver?.signal === hold.lost) this._latestOver = null;
  }

  async _tell(error) {
    this._onLockLost.call(this, error); // what it throws is an unhandled rejection
  }
}

class Mutex extends Lock {
  constructor(client, key, options = {}) {
    const shared = checkShared(options?.shared);
    super(client, "mutex", key, {
      mode: shared ? ["SHARED"] : [], needsModule: shared ? "a shared mutex needs" : null, options,
    });
  }
}

class Semaphore extends Lock {
  constructor(client, key, limit, options = {}) {
    super(client, "semaphore", key, { mode: ["LIMIT", limit], needsModule: "a semaphore needs", options });
    checkLimit(limit);
  }
}

module.exports = { defaultTimeoutOptions, Mutex, Semaphore };
