"use strict";

// What waits for replicas holds up its connection, and the application shares that one: so it goes over others.

const { codeOf } = require("./errors");

const MOST = 16; // connections at a time, of each client
const LINGERS = 30_000; // for how long one stays open that is not in use, in milliseconds
const TAKES = 10_000; // for how long a reply is waited for, which the server limits too (lock.replica-timeout)

const besides = new WeakMap();

class Beside {
  /** `connection` is that of the application. */
  static of(connection) {
    const { client } = connection;
    if (!besides.has(client)) besides.set(client, new Beside(connection));
    return besides.get(client);
  }

  constructor(connection) {
    this.connection = connection;
    this.idle = [];
    this.inUse = 0;
    this.waiting = []; // what takes the next that is given back
    connection.client.on?.("end", () => { while (this.idle.length > 0) this.close(this.idle.pop()); });
  }

  /** `work` has a connection to itself. */
  async use(work) {
    if (this.inUse === MOST) await new Promise((resolve) => { this.waiting.push(resolve); });
    else this.inUse++;
    let line, isWhole = false;
    try {
      line = await this.take();
      const reply = await within(TAKES, work(line));
      isWhole = true;
      return reply;
    } catch (error) {
      isWhole = codeOf(error) !== undefined;
      throw error;
    } finally {
      if (line) this.giveBack(line, isWhole);
      const next = this.waiting.shift();
      if (next) next();
      else this.inUse--;
    }
  }

  async take() {
    for (let line; (line = this.idle.pop());) {
      clearTimeout(line.closing);
      if (!line.isClosed) return line;
    }
    return await this.connection.duplicate();
  }

  giveBack(line, isWhole) {
    if (!isWhole || line.isClosed || this.connection.isClosed) return this.close(line);
    this.idle.push(line);
    line.closing = setTimeout(() => {
      this.idle.splice(this.idle.indexOf(line), 1);
      this.close(line);
    }, LINGERS).unref();
  }

  close(line) {
    clearTimeout(line.closing);
    Promise.resolve().then(() => line.way.close()).catch(() => {});
  }
}

async function within(ms, doing) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("no reply")), ms); });
  try {
    return await Promise.race([doing, late]);
  } finally {
    clearTimeout(timer);
  }
}

module.exports = { Beside };
