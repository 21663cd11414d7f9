"use strict";

// How to speak by the client that somebody has: ioredis or node-redis, to one server, by a Sentinel, or to a cluster.

const { codeOf } = require("./errors");

const TRIES = 5;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ioredis knows the keys of the server's own commands only. A command can be told, so that a cluster's client sends it
// where it belongs; for that it is made, and not yet sent.
class Ioredis {
  constructor(client) {
    this.client = client;
    this.prefix = String(client.options?.keyPrefix ?? "");
    this.canListen = !client.isCluster && typeof client.duplicate === "function";
    this.maker = Object.create(client, {
      options: { value: { ...client.options, enableAutoPipelining: false } },
      sendCommand: { value: (command) => command },
    });
  }

  send(key, words) {
    const command = this.maker.call(...words);
    command.keys = [key];
    return this.client.sendCommand(command);
  }

  // With the prefix at those keys that ioredis knows of.
  spell([command, ...words]) {
    const { name, args } = this.maker.call(String(command).toLowerCase(), ...words);
    return [name, ...args];
  }

  async listen(channel, hear, stop) {
    const { client } = this;
    const ear = client.duplicate({
      autoResubscribe: true, commandTimeout: undefined, enableOfflineQueue: true, keyPrefix: "", lazyConnect: false,
      maxRetriesPerRequest: null,
    });
    stop(() => ear.disconnect());
    ear.on("error", () => {}); // it connects again by itself, and whoever waits asks now and then
    ear.on("message", (_, message) => hear(message));
    await ear.subscribe(channel);
  }
}

class NodeRedis {
  constructor(client) {
    this.client = client;
    this.prefix = String(client.options?.keyPrefix ?? client._keyPrefix ?? "");
    this.canListen = false;
    if (typeof client.getSlotRandomNode === "function") {
      this.deliver = (key, words) => client.sendCommand(key, false, words); // a cluster
    } else if (typeof client.getSentinelNode === "function") {
      this.deliver = (_, words) => client.sendCommand(false, words);
    } else {
      this.deliver = (_, words) => client.sendCommand(words); // one server, or a pool of connections to it
      this.canListen = typeof client.duplicate === "function" && typeof client.subscribe === "function";
    }
  }

  send(key, words) {
    return this.deliver(key, this.spell(words));
  }

  spell(words) {
    return words.map((word) => Buffer.isBuffer(word) ? word : String(word));
  }

  async listen(channel, hear, stop) {
    const ear = this.client.duplicate({ clientSideCache: undefined });
    stop(() => ear.destroy ? ear.destroy() : ear.disconnect());
    ear.on("error", () => {}); // as above
    await ear.connect();
    await ear.subscribe(channel, hear);
  }
}

class Connection {
  constructor(client) {
    if (!client) throw new Error('"client" is required');
    if (typeof client.sendCommand !== "function") throw new Error('"client" must be of ioredis or node-redis');
    this.client = client;
    this.way = typeof client.call === "function" ? new Ioredis(client) : new NodeRedis(client);
  }

  get prefix() {
    return this.way.prefix;
  }

  get canListen() {
    return this.way.canListen;
  }

  /** For good: it does not connect again by itself. */
  get isClosed() {
    return this.client.status === "end" || this.client.isOpen === false;
  }

  /** Says it once: for what must not be done twice. */
  async sayOnce(key, words) {
    return await this.way.send(key, words);
  }

  /** Says it again when the client has lost it: all that this package says itself may be said twice. */
  async say(key, words) {
    for (let tries = 1; ; tries++) {
      try {
        return await this.sayOnce(key, words);
      } catch (error) {
        if (codeOf(error) !== undefined || tries === TRIES) throw error;
        await sleep(20 * tries); // asked at once, node-redis 5 may answer with the reply to something else, or never
      }
    }
  }

  spell(words) {
    return this.way.spell(words);
  }

  listen(channel, hear, stop) {
    return this.way.listen(channel, hear, stop);
  }
}

module.exports = { Connection };
