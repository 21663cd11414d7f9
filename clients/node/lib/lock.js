"use strict";

const { randomUUID } = require("node:crypto");
const { hostname } = require("node:os");
const { Attempt, now } = require("./attempt");
const { Connection } = require("./connection");
const { LostLockError, TimeoutError } = require("./errors");
const { begin, holdOf } = require("./flow");
const { Hold } = require("./hold");
const { Over } = require("./over");
const { checked, checkKeys, checkLimit, checkShared, checkSignal } = require("./options");
const { Store } = require("./store");
const { forget, remember } = require("./supersede");

const defaultTimeoutOptions = {
  lockTimeout: 10_000,
  acquireTimeout: 10_000,
  acquireAttemptsLimit: Number.POSITIVE_INFINITY,
  retryInterval: 10,
};

const REFRESHES_PER_TTL = 3; // so that two may fail
const LONGEST_PAUSE = 100; // of a request that polls without the module, unless the user has chosen the interval

// Operators see the owner in LOCK.INFO and LOCK.LOG: it says where to look.
const THIS_PROCESS = `${[...hostname()].slice(0, 64).join("")}:${process.pid}`;

const { retryInterval: FIRST_PAUSE, ...times } = defaultTimeoutOptions;
const DEFAULTS = {
  mutex: { ...times, keyPrefix: "mutex:", ownerPrefix: THIS_PROCESS },
  semaphore: { ...times, keyPrefix: "semaphore:", ownerPrefix: THIS_PROCESS },
};

/** What a Mutex and a Semaphore have in common. */
class Lock {
  constructor(client, kind, key, { mode = [], needsModule = null, options }) {
    this._connection = Connection.of(client);
    const all = checked(options, DEFAULTS[kind], kind);
    const keys = checkKeys(key).map((name) => all.keyPrefix + name);
    if (keys.length > 1) needsModule ??= "several keys at once need";
    if (all.requireModule) needsModule ??= "requireModule asks for";
    if (all.maxQueue !== undefined) needsModule ??= "maxQueue needs";
    if (all.fair !== undefined && keys.length > 1) throw new TypeError('"fair" is for a semaphore of one key');
    if (all.replicas) {
      if (!this._connection.canDuplicate) throw new TypeError('"replicas" needs a connection of its own, and this client can\'t be duplicated');
      // In a cluster WAIT could reach another node than what it waits for.
      if (!this._connection.isOneServer) needsModule ??= "replicas of several servers need";
    }
    this._kind = kind;
    this._key = keys.join(", ");
    this._store = new Store(this._connection, keys.map((name) => this._connection.prefix + name), mode, needsModule, all);
    this._holds = []; // more than one only where several share the object, and the lock; the latest is the last
    this._nextOver = new Over(); // of the next hold: also for code that asks for `lost` before that
    this._setTimes(all);
    this._setOwner(all);
  }

  _setTimes({ lockTimeout, acquireTimeout, acquireAttemptsLimit, retryInterval, refreshInterval, onLockLost }) {
    this._ttl = Math.ceil(lockTimeout);
    this._pause = retryInterval ?? FIRST_PAUSE;
    this._longestPause = retryInterval ?? LONGEST_PAUSE;
    // As many attempts as there would be if it polled. One more would be asked when they are over.
    const attempts = acquireAttemptsLimit === Infinity ? Infinity : (acquireAttemptsLimit - 1) * this._pause;
    this._patience = Math.min(acquireTimeout, attempts);
    this._refreshInterval = refreshInterval ?? this._ttl / REFRESHES_PER_TTL;
    this._onLockLost = onLockLost ?? ((error) => process.emitWarning(error));
  }

  _setOwner({ identifier, acquiredExternally, externallyAcquiredIdentifier, ownerPrefix, identifierSuffix, fair }) {
    const given = identifier || externallyAcquiredIdentifier;
    const prefix = ownerPrefix && `${ownerPrefix}:`, suffix = identifierSuffix ? `-${identifierSuffix}` : "";
    this._acquiredExternally = !!acquiredExternally || !!externallyAcquiredIdentifier;
    this._ownerIsGiven = given !== undefined;
    const group = fair === undefined ? "" : `${fair}:`;
    this._freshOwner = () => {
      const owner = given ?? prefix + randomUUID() + suffix;
      return owner.startsWith(group) ? owner : group + owner;
    };
    this._fresh = null; // the next attempt's owner, once it is asked for
    this._last = null; // the attempt of a given owner that is not over
  }

  /** The owner of the hold; while there is none, of the next attempt. */
  get identifier() {
    return this._hold?.identifier ?? this._nextOwner;
  }

  get _nextOwner() {
    return this._fresh ??= this._freshOwner();
  }

  get isAcquired() {
    return this._hold !== undefined;
  }

  get fence() {
    return this._hold?.fence ?? undefined;
  }

  get lost() {
    this._holds.at(-1)?.look();
    return (this._latestOver ?? this._nextOver).signal;
  }

  get _hold() {
    return this._holds.findLast((hold) => hold.isHeld);
  }

  // None of these is an async function: the flow that calls is marked before anything is waited for.
  acquire(signal) {
    return this._acquireIn(begin(this), signal, true);
  }

  tryAcquire(signal) {
    return this.tryHold(signal).then((hold) => hold !== null);
  }

  tryHold(signal) {
    return this._acquireIn(begin(this), signal);
  }

  async _acquireIn(acquiring, signal, throws = false) {
    try {
      checkSignal(signal);
      signal?.throwIfAborted();
      const until = now() + this._patience, takesOver = this._acquiredExternally;
      // An owner does not wait for itself: the server would take the second for the first, who asks again. (Nothing is
      // waited for between the last look and the attempt.)
      while (this._ownerIsGiven && !takesOver && (this.isAcquired || this._last)) {
        signal?.throwIfAborted();
        if (now() >= until) return this._notAcquired(throws);
        await new Promise((resolve) => { setTimeout(resolve, this._pause); });
      }
      // Each attempt has an owner of its own: a RELEASE of one that was given up, and comes late, would end the next.
      const owner = this._nextOwner;
      this._fresh = null;
      const attempt = new Attempt(this._connection, this._store, {
        owner, ttl: this._ttl, patience: until - now(), pause: this._pause, longestPause: this._longestPause, takesOver,
        releaseInBackground: (until) => this._releaseInBackground(owner, until),
      });
      const running = attempt.run(signal);
      if (this._ownerIsGiven) this._follow(attempt, running);
      const granted = await running;
      if (!granted) return this._notAcquired(throws);
      if (takesOver) this._acquiredExternally = false;
      return this._latest = acquiring.hold = this._keep(owner, granted);
    } finally {
      acquiring.isOver = acquiring.hold === null;
    }
  }

  _notAcquired(throws) {
    if (throws) throw new TimeoutError(`Acquire ${this._kind} ${this._key} timeout`);
    return null;
  }

  _keep(owner, { fence, asked }) {
    const over = this._latestOver = this._nextOver;
    this._nextOver = new Over();
    const hold = new Hold(this, { owner, fence, asked, ttl: this._ttl, interval: this._refreshInterval, over });
    if (!hold.isHeld) return hold;
    this._holds.push(hold);
    if (this._ownerIsGiven && fence !== null) remember(this._connection, this._store.native.keys, hold);
    return hold;
  }

  // Until its hold is kept, or it has left nothing behind, also if it was given up before.
  _follow(attempt, running) {
    this._last = attempt;
    const left = attempt.settled.finally(() => attempt.leaving);
    Promise.allSettled([running, left]).then(() => { if (this._last === attempt) this._last = null; });
  }

  _refresh(owner, ttl) {
    return this._store.renew(owner, ttl);
  }

  _guard(owner, command) {
    return this._store.guard(owner, this._connection.spell(command));
  }

  /** Not of an owner that may come to hold it anew. */
  _releaseInBackground(owner, until) {
    if (this._ownerIsGiven) return false;
    this._store.releaseUntilReplied(owner, until);
    return true;
  }

  stopRefresh() {
    for (const hold of this._holds) hold.stopRefresh();
  }

  async release() {
    const hold = holdOf(this) ?? this._holds.find((one) => one.isHeld) ?? (this._acquiredExternally ? this._notTakenOver() : null);
    // As in redis-semaphore, a lock that was lost may be released. That it was lost is told by `lost`.
    try {
      await hold?.release();
    } catch (error) {
      if (!(error instanceof LostLockError)) throw error;
    }
    this._acquiredExternally = false;
  }

  // What another process holds by our owner may be released without being acquired first.
  _notTakenOver() {
    return new Hold(this, {
      owner: this._nextOwner, fence: null, asked: now(), ttl: this._ttl, interval: 0, over: new Over(),
    });
  }

  async guard(...command) {
    const hold = holdOf(this) ?? this._hold;
    if (!hold) throw new LostLockError(`Cannot guard by ${this._kind} ${this._key}, which is not held`, { key: this._key });
    return await hold.guard(...command);
  }

  // What a hold says of itself.

  _lostError({ identifier, fence }, why) {
    const cause = new Error(why);
    return new LostLockError(`Lost ${this._kind} for key ${this._key}: ${why}`, { key: this._key, identifier, fence, cause });
  }

  _forget(hold) {
    this._holds = this._holds.filter((one) => one !== hold);
    if (this._ownerIsGiven) forget(this._connection, this._store.native.keys, hold);
    if (hold === this._latest && !hold.isLost) this._latestOver = null;
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
    const { fair, per } = options ?? {}, share = per === undefined ? ["FAIR"] : ["FAIR", "PER", per];
    const mode = ["LIMIT", limit, ...fair === undefined ? [] : share];
    super(client, "semaphore", key, { mode, needsModule: fair === undefined ? "a semaphore needs" : "fair needs", options });
    checkLimit(limit);
  }
}

module.exports = { defaultTimeoutOptions, Mutex, Semaphore };
