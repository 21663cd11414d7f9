"use strict";

// One connection more for each client, and only while somebody waits by it: the server says there whose turn it is.

const { randomUUID } = require("node:crypto");

const LINGERS = 1_000; // for how long it stays when nobody waits any more, in milliseconds

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
    this.deaf = !connection.canListen;
    this.closed();
    connection.client.on?.("end", () => this.close());
  }

  closed() {
    this.channel = null; // while it listens: its name
    this.opening = null;
    this.stop = () => {};
  }

  /** From now on, until it has left, `wake` is called when a message for the number that is returned comes. */
  join(wake) {
    clearTimeout(this.closing);
    const number = String(this.numbers++);
    this.waiting.set(number, wake);
    if (!this.deaf && !this.opening) this.open();
    return number;
  }

  leave(number) {
    this.waiting.delete(number);
    if (this.waiting.size > 0 || !this.opening) return;
    clearTimeout(this.closing);
    this.closing = setTimeout(() => this.close(), LINGERS);
  }

  open() {
    const channel = `${this.connection.prefix}lock:${randomUUID()}`;
    const opening = this.opening = {}; // one that is closed before it is open must not be taken for its successor
    const hear = (number) => this.waiting.get(String(number))?.();
    const listening = this.connection.listen(channel, hear, (stop) => { this.stop = stop; });
    listening.then(
      () => { if (this.opening === opening) this.channel = channel; },
      () => { if (this.opening === opening) this.giveUp(); }, // it may not subscribe, say: then one asks more often
    );
  }

  giveUp() {
    this.deaf = true;
    this.close();
  }

  close() {
    clearTimeout(this.closing);
    Promise.resolve().then(this.stop).catch(() => {});
    this.closed();
  }
}

module.exports = { Ear };
