"use strict";

// The clients that people have, each in several versions.

const newEnough = (major) => +process.versions.node.split(".")[0] >= major;

const ioredis = (name) => ({
  async connect(port, { keyPrefix } = {}) {
    const client = new (require(name))({ port, keyPrefix });
    client.on("error", () => {});
    return { client, close: () => client.disconnect(), ask: (...words) => client.call(...words) };
  },
  cluster(ports) {
    const Redis = require(name);
    const client = new Redis.Cluster(ports.map((port) => ({ host: "127.0.0.1", port })));
    client.on("error", () => {});
    return { client, close: () => client.disconnect() };
  },
  sentinel(port, name_) {
    const client = new (require(name))({
      sentinels: [{ host: "127.0.0.1", port }], name: name_, sentinelRetryStrategy: () => 50, retryStrategy: () => 50,
    });
    client.on("error", () => {});
    return { client, close: () => client.disconnect() };
  },
});

const end = (client) => Promise.resolve(client.destroy ? client.destroy() : client.disconnect()).catch(() => {});

const nodeRedis = (name, resp) => ({
  async connect(port) {
    const client = require(name).createClient({ RESP: resp, socket: { host: "127.0.0.1", port, reconnectStrategy: 20 } });
    client.on("error", () => {});
    await client.connect();
    return { client, close: () => end(client), ask: (...words) => client.sendCommand(words.map(String)) };
  },
  async cluster(ports) {
    const client = require(name).createCluster({ rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })) });
    client.on("error", () => {});
    await client.connect();
    return { client, close: () => end(client) };
  },
  async sentinel(port, name_) {
    const client = require(name).createSentinel({ name: name_, sentinelRootNodes: [{ host: "127.0.0.1", port }] });
    client.on("error", () => {});
    await client.connect();
    return { client, close: () => end(client) };
  },
});

const CLIENTS = {
  "ioredis 4": ioredis("ioredis-4"),
  "ioredis 5": ioredis("ioredis"),
  "node-redis 4": nodeRedis("redis-4"),
  "node-redis 5": nodeRedis("redis-5"),
  "node-redis 5, RESP3": nodeRedis("redis-5", 3),
  ...newEnough(20) && { "ioredis 6": ioredis("ioredis-6"), "node-redis 6": nodeRedis("redis-6") },
};

module.exports = { CLIENTS };
