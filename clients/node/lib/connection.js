"use strict";

// How to speak by the application's client: ioredis or node-redis, to one server, by a Sentinel, or to a cluster.

const { errorMonitor } = require("node:events");
const { codeOf } = require("./errors");

const TRIES = 5;
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// ioredis knows the keys of the server's own commands only. A command can be told, so that a cluster's client sends it
// where it belongs; for that it is made, and not yet sent.
class Ioredis {
  constructor(client) {
    this.client = client;
    this.prefix = String(client.options?.keyPrefix ?? "");
    this.canDuplicate = typeof client.duplicate === "function";
    this.isOneServer = !client.isCluster;
    this.canListen = this.isOneServer && this.canDuplicate;
    const maker = (options) => Object.create(client, {
      options: { value: { ...client.options, enableAutoPipelining: false, ...options } },
      sendCommand: { value: (command) => command },
    });
    this.maker = maker({});
    this.makerWithoutPrefix = maker({ keyPrefix: "" });
  }

  // When a connection closes, ioredis keeps the commands that were not answered and sends them again on the next
  // one: whatever they do is done twice. It rejects those that belong to the middle of a pipeline, whose beginning is
  // gone; of none is this number the right one.
  send(key, words) {
    const command = this.makerWithoutPrefix.call(...words);
    command.keys = [key];
    command.pipelineIndex = NaN;
    return this.client.sendCommand(command);
  }

  async duplicate() {
    if (this.client.isCluster) return this.client.duplicate().on("error", () => {});
    // One that breaks is replaced: on its next connection ioredis would send again what was not answered.
    return this.client.duplicate({
      commandTimeout: undefined, enableOfflineQueue: true, lazyConnect: false, maxRetriesPerRequest: null, retryStrategy: null,
    }).on("error", () => {});
  }

  close() {
    this.client.disconnect();
  }

  // With the prefix at those keys that ioredis knows of.
  spell([command, ...words]) {
    const { name, args } = this.maker.call(command.toLowerCase(), ...words);
    return [name, ...args];
  }

  listen(channel, { heard, up, down, failed }) {
    const ear = this.client.duplicate({
      autoResubscribe: false, commandTimeout: undefined, enableOfflineQueue: true, keyPrefix: "", lazyConnect: false,
      maxRetriesPerRequest: null,
    });
    ear.on("error", () => {}); // it connects again by itself, and requests that wait ask now and then
    ear.on("message", (_, message) => heard(message));
    ear.on("close", down);
    ear.on("end", failed);
    ear.on("ready", () => ear.subscribe(channel).then(up, (error) => { if (codeOf(error)) failed(); }));
    return () => ear.disconnect();
  }
}

// node-redis 5 writes what was asked for in this turn of the event loop at the turn's end. If the connection breaks in
// between, it writes to the closed one, waits for those replies on the next, and takes every later reply for that to an
// earlier command: a client is granted what another one was. From 5.9 on it can be paused until the turn is over, or until
// it has connected again, if that is earlier: while it is paused it does not say what a connection begins with, and never
// says it later.
function keepInStep(client) {
  if (typeof client._pause !== "function" || typeof client._unpause !== "function") return;
  client.on?.(errorMonitor, () => {
    client._pause();
    setImmediate(() => client._unpause());
  });
  client.on?.("connect", () => client._unpause());
}

class NodeRedis {
  constructor(client) {
    keepInStep(client);
    this.client = client;
    this.prefix = String(client.options?.keyPrefix ?? client._keyPrefix ?? "");
    this.canDuplicate = typeof client.duplicate === "function";
    this.canListen = this.isOneServer = false;
    if (typeof client.getSlotRandomNode === "function") {
      this.deliver = (key, words) => client.sendCommand(key, false, words); // a cluster
    } else if (typeof client.getSentinelNode === "function") {
      this.deliver = (_, words) => bySentinel(client, words);
    } else {
      this.deliver = (_, words) => client.sendCommand(words); // one server, or a pool of connections to it
      this.isOneServer = true;
      this.canListen = this.canDuplicate && typeof client.subscribe === "function";
    }
  }

  async duplicate() {
    const { socket } = this.client.options ?? {};
    // One that breaks is replaced.
    const client = this.client.duplicate(this.isOneServer ? { clientSideCache: undefined, socket: { ...socket, reconnectStrategy: false } } : undefined);
    client.on("error", () => {});
    await client.connect();
    return client;
  }

  close() {
    return this.client.destroy ? this.client.destroy() : this.client.disconnect();
  }

  send(key, words) {
    return this.deliver(key, words.map(toWord));
  }

  spell(words) {
    return words.map(toWord);
  }

  listen(channel, { heard, up, down, failed }) {
    const ear = this.client.duplicate({ clientSideCache: undefined });
    keepInStep(ear);
    let subscribed = false;
    ear.on("error", down); // as above
    ear.on("ready", () => { if (subscribed) up(); }); // it has subscribed again by then
    const subscribe = async () => {
      await ear.connect();
      await ear.subscribe(channel, heard);
      subscribed = true;
      up();
    };
    subscribe().catch(failed);
    return () => ear.destroy ? ear.destroy() : ear.disconnect();
  }
}

const toWord = (word) => Buffer.isBuffer(word) ? word : String(word);

// node-redis' Sentinel client sends a command again when its connection broke before the reply. What is no Error it
// throws at once.
async function bySentinel(client, words) {
  if (typeof client._execute !== "function") return client.sendCommand(false, words);
  const once = async (master) => {
    try {
      return await master.sendCommand(words);
    } catch (error) {
      throw codeOf(error) === undefined ? { error } : error;
    }
  };
  try {
    return await client._execute(false, once);
  } catch (thrown) {
    throw thrown?.error ?? thrown;
  }
}

async function untilReplied(say, read = (reply, repeated) => ({ reply, repeated })) {
  for (let tries = 1; ; tries++) {
    const repeated = tries > 1;
    try {
      return read(await say(), repeated);
    } catch (error) {
      if (codeOf(error) !== undefined || tries === TRIES) throw Object.assign(error, { repeated });
      await sleep(20 * tries); // asked at once, node-redis 5 may answer with the reply to something else, or never
    }
  }
}

class Connection {
  static #connections = new WeakMap();

  /** One for each client: many locks are made for one operation only. */
  static of(client) {
    if (!Connection.#connections.has(client)) Connection.#connections.set(client, new Connection(client));
    return Connection.#connections.get(client);
  }

  constructor(client) {
    if (!client) throw new TypeError('"client" is required');
    if (typeof client.sendCommand !== "function") throw new TypeError('"client" must be of ioredis or node-redis');
    this.client = client;
    this.way = typeof client.call === "function" ? new Ioredis(client) : new NodeRedis(client);
  }

  get prefix() {
    return this.way.prefix;
  }

  get canListen() {
    return this.way.canListen;
  }

  get canDuplicate() {
    return this.way.canDuplicate;
  }

  /** So that what is said after another command reaches the server after that. */
  get isOneServer() {
    return this.way.isOneServer;
  }

  /** Another one to the same server. */
  async duplicate() {
    return new Connection(await this.way.duplicate());
  }

  /** For good: it does not connect again by itself. */
  get isClosed() {
    return this.client.status === "end" || this.client.isOpen === false;
  }

  /** Says it once: for what must not be done twice. An error without a code leaves open whether it was done. */
  sayOnce(key, words) {
    return this.way.send(key, words);
  }

  /** Says it until there is a reply, and reads that. `repeated`: an earlier time may have done it. */
  sayUntilReplied(key, words, read) {
    return untilReplied(() => this.sayOnce(key, words), read);
  }

  /** The same, for what may be done twice. */
  say(key, words) {
    return this.sayUntilReplied(key, words, (reply) => reply);
  }

  spell(words) {
    return this.way.spell(words);
  }

  /** Subscribes, again and again, until the function that is returned is called. */
  listen(channel, told) {
    return this.way.listen(channel, told);
  }
}

module.exports = { Connection, untilReplied };
