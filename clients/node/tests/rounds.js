"use strict";

// A fleet of which one half knows the module and the other can't: each adds to a number by reading it and writing it
// back under the lock, while the module is loaded and unloaded. By hand: `node rounds.js 100000`.

const { setTimeout: sleep } = require("node:timers/promises");
const { Mutex: Theirs } = require("redis-semaphore");
const { Mutex } = require("redis-lock-module");
const { CLIENTS } = require("./clients");
const { eventually, Server } = require("./server");

async function loadModule(db) {
  await db.call("MODULE", "LOAD", process.env.REDIS_LOCK_MODULE);
}

// It is refused while a client waits, or a timer of the module's lives.
async function unloadModule(db) {
  await eventually(async () => {
    try {
      await db.call("CONFIG", "SET", "lock.drain", "yes");
      return await db.call("MODULE", "UNLOAD", "lock") === "OK";
    } catch (error) {
      if (!/^ERR/.test(error.message)) throw error;
      return false;
    }
  }, "it is never unloaded");
}

// One to which the module is not there, whatever the server has loaded.
function plainly(client) {
  const isOurs = (name) => /^lock\./i.test(name);
  const unknown = (name) => Promise.reject(new Error(`ERR unknown command '${name}'`));
  const send = (command, ...rest) => {
    const name = Array.isArray(command) ? command[0] : command.name;
    return isOurs(name) ? unknown(name) : client.sendCommand(command, ...rest);
  };
  if (client.call) return Object.create(client, { sendCommand: { value: send } });
  return { sendCommand: send };
}

async function rounds({ total, onSecond = () => {} }) {
  const server = await Server.start(["--enable-module-command", "yes"], { module: false });
  const { db } = server, connections = [], members = [];
  for (const name of ["ioredis 5", "node-redis 5", "ioredis 4", "node-redis 4"]) {
    const connection = await CLIENTS[name].connect(server.port);
    connections.push(connection);
    members.push([Mutex, connection.client], [Mutex, plainly(connection.client)]);
  }
  members.push([Theirs, db], [Mutex, connections[0].client]);
  let done = 0, beside = 0, inside = 0, loads = 0, isOver = false;
  const work = async ([Kind, client]) => {
    while (done < total) {
      const mutex = new Kind(client, "market", { lockTimeout: 30_000, acquireTimeout: 60_000, retryInterval: 1 });
      const hold = await mutex.acquire();
      if (++inside > 1) beside++;
      const number = +(await db.get("number") ?? 0);
      if (hold && done % 3 === 0) await hold.guard("SET", "number", number + 1);
      else await db.set("number", number + 1);
      inside--;
      done++;
      await (hold ?? mutex).release();
      if (done % 2) await sleep(Math.random() * 2);
    }
  };
  const change = (async () => {
    while (!isOver) {
      await loadModule(db);
      loads++;
      for (const { client } of connections) client.emit("ready"); // as if it had connected again
      await sleep(100 + Math.random() * 200);
      await unloadModule(db);
      await sleep(100 + Math.random() * 200);
    }
  })();
  const telling = setInterval(() => onSecond({ done, beside, loads }), 10_000);
  try {
    await Promise.race([Promise.all(members.map(work)), change.then(() => new Promise(() => {}))]);
    isOver = true;
    await change;
    return { counted: +await db.get("number"), done, beside, loads };
  } finally {
    isOver = true;
    clearInterval(telling);
    for (const connection of connections) await connection.close();
    await server.stop();
  }
}

if (require.main === module) {
  const began = performance.now();
  rounds({ total: +process.argv[2], onSecond: (now) => console.log(JSON.stringify(now)) }).then((result) => {
    console.log(JSON.stringify(result), `${Math.round(performance.now() - began)} ms`);
    process.exitCode = result.counted === result.done && result.beside === 0 ? 0 : 1;
  });
}

module.exports = { loadModule, rounds, unloadModule };
