"use strict";

// One attempt to acquire, by an owner of its own: it asks, keeps its place in the queue, and leaves nothing behind.

const { Ear } = require("./ear");
const { codeOf, DeadlockError, isAboutSomethingElse, mayHaveChanged, maySaySomethingElse } = require("./errors");

const LEASE = 5_000; // for how long a place is kept after it was last asked for, in milliseconds
const ASKS_PER_LEASE = 5;
const ASKS_PER_SECOND = 200; // of all together who wait by one client, and are told when it is their turn
const GREATEST_PAUSE = 1_000; // of those who ask on and on; longer only where the user wants it
const PAUSE_GROWS_BY = 1.5;
const LEAST_PAUSE_OF_THE_REFUSED = 100; // where there is no waiting just now, or no answer
const PATIENCE = 2_000; // for how long one who gives up waits for what it gives up
const IN_DOUBT = 100; // what a broken connection was told last has been read by then, or never will be
const LONGEST_TIMER = 2 ** 31 - 1;

const now = () => performance.now();
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

class Attempt {
  /**
   * `patience` and the pauses are in milliseconds; without patience it tries once. `takesOver`: another process has
   * acquired it by this owner.
   */
  constructor(connection, store, { owner, ttl, patience, pause, longestPause, takesOver = false, releaseInBackground }) {
    Object.assign(this, { connection, store, owner, ttl, longestPause, takesOver, releaseInBackground });
    this.tries = !(patience > 0);
    this.until = now() + (this.tries ? 0 : patience);
    this.leastPause = Math.min(Math.max(pause, 1), 60_000 / ASKS_PER_LEASE);
    this.pause = this.leastPause;
    this.over = false; // its caller does not want it any more
    this.left = false; // something of it may be left in the server
    this.hadPlace = false;
    this.since = null; // the last request that brought no grant: the ttl of a place may begin at any time from then on
    this.broke = false; // a connection did, and what it was told last may be read late
    this.answers = true; // it did so when it was asked last
    this.woken = false;
    this.wake = () => {};
    this.leaving = null; // what its caller does not wait for, and another attempt of the same owner does
  }

  /** The fencing token (without the module: null), and when it was asked for; null if it is not to be had in time. */
  run(signal) {
    const asking = this.settled = this.takesOver ? this.takeOver() : this.ask();
    return new Promise((resolve, reject) => {
      let timer;
      const done = (settle) => (granted) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
        if (!granted && signal?.aborted) reject(signal.reason);
        else settle(granted);
      };
      const within = (ms) => {
        clearTimeout(timer);
        if (ms === Infinity) return;
        timer = setTimeout(() => {
          if (ms > LONGEST_TIMER) return within(ms - LONGEST_TIMER);
          this.giveUp(); // what comes of it later is given back
          done(resolve)(null);
        }, Math.min(ms, LONGEST_TIMER));
      };
      const abort = () => {
        this.giveUp();
        within(PATIENCE);
      };
      within(this.remaining() + PATIENCE);
      signal?.addEventListener("abort", abort);
      asking.then(done(resolve), done(reject));
    });
  }

  giveUp() {
    this.over = true;
    this.wake();
  }

  remaining() {
    return this.over ? 0 : Math.max(0, this.until - now());
  }

  async ask() {
    try {
      const granted = this.tries ? await this.askOnce([]) : await this.queue();
      // One of which we have heard too late is over, for all that we know.
      if (!granted?.held || this.over || now() - granted.asked >= this.ttl) return null;
      this.left = false;
      return granted;
    } catch (error) {
      if (!["DEADLOCK", "TOOCOMPLEX"].includes(codeOf(error))) throw error;
      throw new DeadlockError(error.message, { cause: error });
    } finally {
      if (this.left) {
        this.leaving = this.leave();
        if (this.answers) await this.leaving;
      }
    }
  }

  // It is renewed first, and asked for by its number then. Given up, it stays the other process's.
  async takeOver() {
    const asked = now();
    if (!await this.store.renew(this.owner, this.ttl) || this.over) return null;
    const reply = await this.store.acquire(this.owner, this.ttl, { inDoubt: true });
    return reply?.held ? { ...reply, asked } : null;
  }

  async askOnce(how) {
    const asked = now(), leftBefore = this.left;
    this.left = true;
    this.since ??= asked;
    try {
      const inDoubt = this.broke || this.hadPlace;
      const reply = await this.store.acquire(this.owner, this.ttl, { how, inDoubt });
      this.answers = true;
      this.left = reply !== null;
      this.hadPlace ||= reply?.held === false;
      if (!reply?.held) this.since = asked;
      if (reply) reply.asked = how.length > 0 && reply.fence ? this.since : asked;
      return reply;
    } catch (error) {
      this.answers = codeOf(error) !== undefined;
      this.broke ||= !this.answers;
      // Another refusal changes nothing; and what the owner has besides is not ended with this.
      this.left = leftBefore && !isAboutSomethingElse(error) || mayHaveChanged(error) || !this.answers;
      throw error;
    }
  }

  async queue() {
    const ear = Ear.of(this.connection);
    const turn = () => {
      this.woken = true;
      this.wake();
    };
    const number = ear.join(turn);
    try {
      for (let first = true, confirms = false, placeBefore; ; first = false) {
        const { channel } = ear; // null while it does not listen: then one asks more often
        const { lease, pause } = this.lease(ear, channel);
        let reply = null;
        this.woken = false;
        if (this.store.isPlain) this.store.join(turn);
        try {
          const place = ["QUEUE", lease, ...(channel ? ["NOTIFY", channel, number] : [])];
          reply = await this.askOnce(confirms ? [] : place);
          if (channel) ear.works();
        } catch (error) {
          if (this.isAboutTheLease(error)) continue;
          if (channel && ["NOPERM", "CROSSSLOT"].includes(codeOf(error))) {
            ear.fail();
            continue;
          }
          // A request that has a place, or had one, finds out what has become of it by asking again.
          if (first || !maySaySomethingElse(error) || this.connection.isClosed) throw error;
        }
        // Where replicas have to acknowledge a claim, its ttl begins before the request that hears of it: a short time is
        // taken off the hold, after a long one the same owner asks again, which counts from then on.
        confirms = !confirms && reply?.held && now() - reply.asked > this.ttl / 8;
        if (confirms && !this.over) continue;
        if (reply?.held || this.remaining() <= 0) return reply;
        if (reply && !channel) ear.listen();
        // While the queue moves one asks often; and always less often from farther back.
        if (reply && reply.place !== placeBefore) this.pause = this.leastPause;
        placeBefore = reply?.place;
        if (reply && channel && channel === ear.channel) await this.sleep(pause);
        else if (reply) await this.sleep(Math.min(this.nextPause() * reply.place, Math.max(pause, GREATEST_PAUSE)));
        else if (this.store.isPlain) await this.sleep(Math.min(this.nextPause(), this.longestPause));
        else await this.sleep(Math.max(this.nextPause(), LEAST_PAUSE_OF_THE_REFUSED));
        if (this.over) return null;
      }
    } finally {
      ear.leave(number);
      this.store.leave(turn);
    }
  }

  // Those who are told need not ask; they keep their places, and find out what a lost message would have said.
  lease(ear, channel) {
    const { longestLease } = this.store.server;
    const pause = channel ? 1_000 * ear.waiting.size / ASKS_PER_SECOND : this.leastPause;
    const lease = Math.min(Math.ceil(Math.max(LEASE, ASKS_PER_LEASE * pause)), longestLease);
    return { lease, pause: channel ? lease / ASKS_PER_LEASE : this.leastPause };
  }

  // An operator may allow shorter ones only (lock.max-place-ttl).
  isAboutTheLease(error) {
    const [, longest] = /^ERR lease must be 1 to (\d+) /.exec(error.message) ?? [];
    if (!longest || +longest >= this.store.server.longestLease) return false;
    this.store.server.longestLease = +longest;
    return true;
  }

  nextPause() {
    const { pause } = this;
    this.pause = Math.max(this.leastPause, Math.min(pause * PAUSE_GROWS_BY, GREATEST_PAUSE));
    return pause;
  }

  // By a little chance, so that not all ask in step.
  async sleep(ms) {
    if (this.woken || this.over) return;
    let timer;
    await new Promise((resolve) => {
      this.wake = resolve;
      timer = setTimeout(resolve, Math.min(ms * (0.5 + Math.random() / 2), this.remaining()));
    });
    clearTimeout(timer);
  }

  async leave() {
    for (let again = this.broke; ; again = false) {
      try {
        await this.store.release(this.owner);
      } catch (error) {
        if (maySaySomethingElse(error)) this.releaseInBackground(now() + Math.max(this.ttl, LEASE));
        return;
      }
      if (!again) return;
      await sleep(IN_DOUBT);
    }
  }
}

module.exports = { Attempt, LONGEST_TIMER, now };
