"use strict";

// One connection more for each client, and only while requests wait by it: the server says there whose turn it is.

const { randomUUID } = require("node:crypto");

const LINGERS = 1_000; // for how long it stays when no request waits any more, in milliseconds
const LEAST_REST = 1_000, GREATEST_REST = 60_000; // between two subscriptions that failed

const ears = new WeakMap();

class Ear {
  static of(connection) {
    const { client } = connection;
    if (!ears.has(client)) ears.set(client, new Ear(connection));
    return ears.get(client);
  }

  constructor(connection) {
    this.connection = connection;
    this.waiting = new Map(); // a number for each, and what wakes it
    this.numbers = 0;
    this.rest = 0;
    this.closed();
    connection.client.on?.("end", () => this.close());
  }

  closed() {
    this.channel = null; // while it listens: its name
    this.open = null;
    this.stop = () => {};
  }

  /** From now on, until it has left, `wake` is called when a message for the number that is returned comes. */
  join(wake) {
    clearTimeout(this.closing);
    const number = String(this.numbers++);
    this.waiting.set(number, wake);
    return number;
  }

  leave(number) {
    this.waiting.delete(number);
    if (this.waiting.size > 0 || !this.open) return;
    clearTimeout(this.closing);
    this.closing = setTimeout(() => this.close(), LINGERS);
  }

  /** Opens it, unless it is open or has failed just now. */
  listen() {
    if (this.open || !this.connection.canListen || performance.now() < this.restsUntil) return;
    const channel = `${this.connection.prefix}lock:${randomUUID()}`;
    const open = this.open = {}; // what one that is closed is told later must not be taken for its successor's
    const ifOpen = (then) => (word) => { if (this.open === open) then(word); };
    this.stop = this.connection.listen(channel, {
      heard: ifOpen((number) => this.waiting.get(String(number))?.()),
      up: ifOpen(() => this.isUp(channel)),
      down: ifOpen(() => { this.channel = null; }),
      failed: ifOpen(() => this.fail()),
    });
  }

  isUp(channel) {
    this.channel = channel;
    this.wakeAll(); // what was said meanwhile was not heard
  }

  // Not in one moment.
  wakeAll() {
    for (const wake of this.waiting.values()) setTimeout(wake, Math.random() * Math.min(this.waiting.size, 1_000));
  }

  /** The server has taken a request that names the channel. */
  works() {
    this.rest = 0;
  }

  /** It may not subscribe, say: one asks more often then, and tries again after a while. */
  fail() {
    this.rest = Math.min(Math.max(2 * this.rest, LEAST_REST), GREATEST_REST);
    this.restsUntil = performance.now() + this.rest;
    this.close();
    this.wakeAll();
  }

  close() {
    clearTimeout(this.closing);
    const { stop } = this;
    this.closed();
    Promise.resolve().then(stop).catch(() => {});
  }
}

module.exports = { Ear };
