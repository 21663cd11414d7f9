"use strict";

// One attempt to acquire, by an owner of its own: it asks, keeps its place in the queue, and leaves nothing behind.

const { Ear } = require("./ear");
const { codeOf, DeadlockError, maySaySomethingElse } = require("./errors");

const LEASE = 5_000; // for how long a place is kept after it was last asked for, in milliseconds
const ASKS_PER_LEASE = 5;
const GREATEST_PAUSE = 60_000 / ASKS_PER_LEASE; // no server keeps a place for longer than that, unless it is told to
const LEAST_PAUSE_OF_THE_REFUSED = 100; // where nobody can wait just now, or nobody answers
const PATIENCE = 2_000; // for how long one who gives up waits for what it gives up
const IN_DOUBT = 100; // what a broken connection was told last has been read by then, or never will be
const LONGEST_TIMER = 2 ** 31 - 1;

const now = () => performance.now();
const sleep = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

class Attempt {
  /** `patience` and `pause` are in milliseconds; without patience it tries once. */
  constructor(connection, spelling, { owner, ttl, patience, pause }) {
    Object.assign(this, { connection, spelling, owner, ttl });
    this.tries = !(patience > 0);
    this.until = now() + (this.tries ? 0 : patience);
    this.pause = Math.min(Math.max(pause, 1), GREATEST_PAUSE);
    this.over = false; // nobody wants it any more
    this.left = false; // something of it may be left in the server
    this.broke = false; // a connection did, and what it was told last may be read late
    this.answers = true; // somebody did, when it was asked last
    this.woken = false;
    this.wake = () => {};
  }

  /** The fencing number, and when it was asked for; null if it is not to be had in time. */
  async run(signal) {
    const asking = this.ask();
    this.settled = asking.catch(() => {});
    let timer, abort;
    const nobodyAnswers = new Promise((resolve) => {
      const within = (ms) => {
        clearTimeout(timer);
        timer = setTimeout(() => {
          this.giveUp(); // what comes of it later is given back
          resolve(null);
        }, Math.min(ms, LONGEST_TIMER));
      };
      abort = () => {
        this.giveUp();
        within(PATIENCE);
      };
      within(this.remaining() + PATIENCE);
      signal?.addEventListener("abort", abort);
    });
    try {
      const granted = await Promise.race([asking, nobodyAnswers]);
      if (!granted) signal?.throwIfAborted();
      return granted;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
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
      if (!(granted?.fence > 0) || this.over || now() - granted.asked >= this.ttl) return null;
      this.left = false;
      return granted;
    } catch (error) {
      if (!["DEADLOCK", "TOOCOMPLEX"].includes(codeOf(error))) throw error;
      throw new DeadlockError(error.message, { cause: error });
    } finally {
      const leaving = this.leave();
      if (this.answers) await leaving;
    }
  }

  async askOnce(how) {
    const asked = now(), leftBefore = this.left;
    this.left = true;
    try {
      const reply = await this.connection.say(this.spelling.key, this.spelling.acquire(this.owner, this.ttl, how));
      this.answers = true;
      this.left = reply !== null;
      return reply === null ? null : { fence: Number(reply), asked };
    } catch (error) {
      this.answers = codeOf(error) !== undefined;
      this.broke ||= !this.answers;
      this.left = leftBefore || !this.answers; // a refusal changes nothing
      throw error;
    }
  }

  async queue() {
    const ear = Ear.of(this.connection);
    const number = ear.join(() => {
      this.woken = true;
      this.wake();
    });
    try {
      for (let first = true; ; first = false) {
        const channel = ear.channel; // null while it does not listen: then one asks more often
        const poll = channel ? LEASE / ASKS_PER_LEASE : this.pause;
        let reply = null;
        this.woken = false;
        try {
          const lease = Math.ceil(Math.max(LEASE, ASKS_PER_LEASE * poll));
          reply = await this.askOnce(["QUEUE", lease, ...(channel ? ["NOTIFY", channel, number] : [])]);
        } catch (error) {
          if (channel && ["NOPERM", "CROSSSLOT"].includes(codeOf(error))) {
            ear.giveUp();
            continue;
          }
          // Whoever has a place, or had one, finds out what has become of it by asking again.
          if (first || !maySaySomethingElse(error) || this.connection.isClosed) throw error;
        }
        if (reply?.fence > 0 || this.remaining() <= 0) return reply;
        if (!reply) await this.sleep(Math.max(poll, LEAST_PAUSE_OF_THE_REFUSED));
        else if (channel) await this.sleep(poll);
        else await this.sleep(Math.min(poll * -reply.fence, Math.max(poll, LEASE / ASKS_PER_LEASE)));
        if (this.over) return null;
      }
    } finally {
      ear.leave(number);
    }
  }

  // By a little chance, so that not all ask in step.
  async sleep(ms) {
    if (this.woken || this.over) return;
    let timer;
    await new Promise((resolve) => {
      this.wake = resolve;
      timer = setTimeout(resolve, Math.min(ms * (0.75 + Math.random() / 4), this.remaining()));
    });
    clearTimeout(timer);
  }

  async leave() {
    if (!this.left) return;
    for (let again = this.broke; ; again = false) {
      await this.connection.say(this.spelling.key, this.spelling.release(this.owner)).catch(() => {}); // and no more
      if (!again) return;
      await sleep(IN_DOUBT);
    }
  }
}

module.exports = { Attempt, LONGEST_TIMER, now };
