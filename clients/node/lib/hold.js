"use strict";

const { LONGEST_TIMER, now } = require("./attempt");

const RETRIES_PER_TTL = 10; // how often a renewal is tried that nobody answers

/** One hold, until when it lasts as far as this process knows, and its renewal. */
class Hold {
  /** `refresh` renews it, and says whether it is held. `whenLost` is called when it is not. */
  constructor({ owner, fence, asked, ttl, interval, refresh, whenLost }) {
    Object.assign(this, { owner, fence, ttl, interval, refresh, whenLost });
    this.over = new AbortController(); // aborted when it is lost, with the error
    this.ended = false; // released, or known to be lost: the server has nothing of it
    this.renews = interval > 0;
    this.lastsFrom(asked);
    if (this.renews) this.renewIn(interval);
  }

  get isHeld() {
    return !this.ended && !this.over.signal.aborted;
  }

  // By our own clock, and from when we asked: a server that we can't reach can't tell us that somebody else holds it.
  lastsFrom(asked) {
    clearTimeout(this.end);
    const end = () => {
      const left = asked + this.ttl - now();
      if (left <= 0) return this.lose();
      this.end = setTimeout(end, Math.min(left, LONGEST_TIMER));
      this.end.unref();
    };
    end();
  }

  renewIn(ms) {
    this.renewal = setTimeout(() => this.renew(), Math.min(ms, LONGEST_TIMER));
    this.renewal.unref(); // whoever has nothing else to do need not hold it
  }

  async renew() {
    const asked = now();
    let held, next = this.interval;
    try {
      held = await this.refresh();
    } catch {
      next = Math.min(next, this.ttl / RETRIES_PER_TTL); // nobody answers: ask again soon
    }
    if (!this.isHeld || !this.renews) return;
    if (held === false) {
      this.ended = true;
      return this.lose();
    }
    if (held) this.lastsFrom(asked);
    this.renewIn(next - (now() - asked) % next);
  }

  stopRenewing() {
    this.renews = false;
    clearTimeout(this.renewal);
  }

  /** There is nothing more to find out. */
  stop() {
    this.stopRenewing();
    clearTimeout(this.end);
  }

  lose() {
    if (this.over.signal.aborted) return;
    const wasRenewed = this.renews;
    this.stop();
    this.whenLost(this, wasRenewed);
  }
}

module.exports = { Hold };
