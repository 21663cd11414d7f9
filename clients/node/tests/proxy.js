"use strict";

// Stands between a client and a server: what it is told to lose, it loses.

const { createServer, connect } = require("node:net");
const { setTimeout: sleep } = require("node:timers/promises");
const { freePort } = require("./server");

class Proxy {
  static async to(port) {
    const proxy = new Proxy();
    proxy.port = await freePort();
    proxy.links = new Set();
    proxy.losing = null;
    proxy.lost = 0;
    proxy.requests = "";
    proxy.server = createServer((client) => proxy.link(client, connect(port, "127.0.0.1")));
    await new Promise((resolve) => { proxy.server.listen(proxy.port, "127.0.0.1", resolve); });
    return proxy;
  }

  /** The reply to the next request with this text does not arrive, and its connection breaks; and so on, if `times`. */
  loseReplyTo(text, times = 1) {
    this.losing = { text, times };
  }

  link(client, server) {
    let mute = false;
    const cut = () => {
      client.destroy();
      server.destroy();
      this.links.delete(cut);
    };
    this.links.add(cut);
    for (const socket of [client, server]) socket.on("error", () => {}).on("close", cut);
    const pass = async (data, to) => {
      if (!this.passing) return to.write(data);
      for (const socket of [client, server]) socket.pause();
      await this.passing;
      to.write(data);
      for (const socket of [client, server]) socket.resume();
    };
    client.on("data", (data) => {
      if (this.losing?.times > 0 && data.toString("latin1").toUpperCase().includes(this.losing.text)) {
        this.losing.times--;
        mute = true;
      }
      this.requests += data.toString("latin1");
      pass(data, server);
    });
    server.on("data", (data) => {
      if (!mute) return pass(data, client);
      this.lost++;
      cut();
    });
  }

  /** How many requests had this text. */
  count(text) {
    return this.requests.toUpperCase().split(text).length - 1;
  }

  cutAll() {
    for (const cut of this.links) cut();
  }

  /** Nothing passes for so long, and all of it then. */
  async stall(ms) {
    this.passing = sleep(ms);
    await this.passing;
    this.passing = null;
  }

  close() {
    this.server.close();
    this.cutAll();
  }
}

module.exports = { Proxy };
