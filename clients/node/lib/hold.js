"use strict";

const { LONGEST_TIMER, now } = require("./attempt");
const { codeOf, mayHaveChanged } = require("./errors");
const { checkCommand, checkLockTimeout } = require("./options");

const RETRIES_PER_TTL = 10; // how often a renewal is tried that is not answered
const NOT_RENEWED = "its time was over before a renewal was answered";

/** What one acquire has brought: until when it lasts as far as this process knows, its renewal, and its end. */
class Hold {
  #lock; #over;
  #ttl; #interval; #until; #end; #renewal; #releasing;
  #lostBy = null; // the error
  #waiting = new Set(); // what is to be called when it is lost
  #isOnTheServer = true; // as far as we know
  #releaseWasSaid = false; // once, and what came of it was not heard
  #isLetGo = false; // its release has failed, and goes on in the background
  #renews;

  /** `lock` is what it is a hold of; `over` is aborted when it is lost, with the error. */
  constructor(lock, { owner, fence, asked, ttl, interval, over }) {
    this.#lock = lock;
    this.#over = over;
    this.#ttl = ttl;
    this.#interval = interval;
    this.identifier = owner;
    this.fence = fence;
    this.isReleased = false;
    this.#renews = interval > 0;
    this.#lastsUntil(asked + ttl);
    if (this.#renews) this.#renewIn(interval - (now() - asked));
  }

  get lost() {
    this.look();
    return this.#over.signal;
  }

  get isLost() {
    this.look();
    return this.#lostBy !== null;
  }

  get isHeld() {
    this.look();
    return !this.#isOver && !this.#isLetGo;
  }

  get #isOver() {
    return this.isReleased || this.#lostBy !== null;
  }

  // After a pause of the process the timer of its end is late, and a grant to another owner may be read before it.
  look() {
    if (!this.#isOver && now() >= this.#until) this.#lose(this.#renews ? NOT_RENEWED : "its time was over");
  }

  // By our own clock, and from when we asked: a server that we can't reach can't tell us that another owner holds it.
  #lastsUntil(until) {
    clearTimeout(this.#end);
    this.#until = until;
    const end = () => {
      if (!this.isHeld) return;
      this.#end = setTimeout(end, Math.min(this.#until - now(), LONGEST_TIMER));
      this.#end.unref();
    };
    end();
  }

  #renewIn(ms) {
    this.#renewal = setTimeout(() => this.#renewAgain(), Math.min(ms, LONGEST_TIMER));
    this.#renewal.unref(); // a process that has nothing else to do may end
  }

  async #renewAgain() {
    const asked = now();
    let next = this.#interval;
    try {
      await this.#renewFor(this.#ttl);
    } catch {
      next = Math.min(next, this.#ttl / RETRIES_PER_TTL); // no answer: ask again soon
    }
    if (this.isHeld && this.#renews) this.#renewIn(next - (now() - asked) % next);
  }

  async #renewFor(ttl) {
    const asked = now(), before = this.#until;
    if (asked + ttl < before) this.#lastsUntil(asked + ttl); // the server may hear of it, and we not of its reply
    let held;
    try {
      held = await this.#lock._refresh(this.identifier, ttl);
    } catch (error) {
      const isRefused = codeOf(error) !== undefined && !mayHaveChanged(error) && !error.repeated;
      if (isRefused && this.isHeld) this.#lastsUntil(Math.max(this.#until, before));
      throw error;
    }
    // A renewal over a connection of its own may come after our release, and find nothing.
    if (!this.isHeld || (!held && this.#releasing)) return;
    if (held) return this.#lastsUntil(asked + ttl);
    this.#isOnTheServer = false;
    this.#lose("when it was to be renewed, the server had it no more");
  }

  async renew(lockTimeout = this.#ttl) {
    const ttl = Math.ceil(checkLockTimeout(lockTimeout));
    this.throwIfLost();
    await this.#orLost(this.#renewFor(ttl));
    this.throwIfLost();
  }

  // To wait for a server that does not answer is to wait until the hold is over, and no longer.
  #orLost(doing) {
    this.look();
    if (this.#lostBy) {
      doing.catch(() => {}); // what comes of it later concerns no one
      return false;
    }
    return new Promise((resolve, reject) => {
      const over = () => resolve(false);
      const done = (settle) => (said) => {
        this.#waiting.delete(over);
        settle(said);
      };
      this.#waiting.add(over);
      doing.then(done(resolve), done(reject));
    });
  }

  throwIfLost() {
    this.look();
    if (this.#lostBy) throw this.#lostBy;
    if (this.isReleased) throw this.#lock._lostError(this, "it was released");
  }

  /** The server has granted the lock to the same owner again, with a larger fencing token: this hold ended before. */
  supersede() {
    this.#isOnTheServer = false; // what is there now is the later hold
    this.#lose("its owner has acquired the lock again since, with another fencing token");
  }

  async guard(...command) {
    checkCommand(command);
    this.throwIfLost();
    try {
      return await this.#lock._guard(this.identifier, command);
    } catch (error) {
      if (codeOf(error) !== "NOTOWNER") throw error;
      this.#isOnTheServer = false;
      this.#lose("a command was not run, because the server had it no more");
      throw this.#lostBy ?? this.#lock._lostError(this, "it was released");
    }
  }

  stopRefresh() {
    this.#renews = false;
    clearTimeout(this.#renewal);
  }

  /** Throws if it was lost. A second time, or together with the first, it is the same as the first. */
  release() {
    this.#releasing ??= this.#release();
    return this.#releasing;
  }

  async #release() {
    this.stopRefresh();
    try {
      if (this.#isOnTheServer && !await this.#orLost(this.#endOnTheServer())) {
        this.#lose("when it was to be released, the server had it no more");
      }
    } catch (error) {
      this.#releasing = null; // it may be tried again
      this.#goOnReleasing(error);
      throw error;
    }
    this.isReleased = true;
    this.#stop();
    if (this.#lostBy) throw this.#lostBy;
  }

  #goOnReleasing(error) {
    if (codeOf(error) !== undefined || this.#isLetGo) return;
    this.#isLetGo = this.#lock._releaseInBackground(this.identifier, this.#until);
  }

  /** True: it lasted until now. */
  async #endOnTheServer() {
    try {
      const { ended, repeated } = await this.#lock._store.release(this.identifier);
      this.#isOnTheServer = false;
      // One that has been said before may have been what ended it.
      return ended || ((repeated || this.#releaseWasSaid) && now() < this.#until);
    } catch (error) {
      this.#releaseWasSaid ||= codeOf(error) === undefined;
      if (this.#lostBy) return false; // it is over anyway
      throw error;
    }
  }

  #stop() {
    this.stopRefresh();
    clearTimeout(this.#end);
    this.#lock._forget(this);
  }

  #lose(why) {
    if (this.#isOver) return;
    const wasRenewed = this.#renews, error = this.#lock._lostError(this, why);
    this.#lostBy = error;
    for (const wake of this.#waiting) wake();
    this.#over.abort(error);
    this.#stop();
    if (!wasRenewed) return; // it was let go on purpose, or another process renews it
    if (this.#isOnTheServer) this.#lock._store.release(this.identifier).catch(() => {}); // it may last there
    this.#isOnTheServer = false;
    this.#lock._tell(error);
  }
}

// Node 18 has no `await using`.
if (Symbol.asyncDispose) {
  Hold.prototype[Symbol.asyncDispose] = function dispose() { return this.release(); };
}

module.exports = { Hold };
