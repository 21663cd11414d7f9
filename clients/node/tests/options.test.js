"use strict";

// What makes no sense is refused before anything is sent.

const assert = require("node:assert/strict");
const { it } = require("node:test");
const { Mutex, Semaphore } = require("redis-lock-module");

const client = { sendCommand: (words) => assert.fail(`${words} was sent`) };

const REFUSED = {
  lockTimeout: [["1000", TypeError], [null, TypeError], [true, TypeError], [new Date(), TypeError], [-1, RangeError],
    [0, RangeError], [0.5, RangeError], [NaN, RangeError], [Infinity, RangeError], [2 ** 60, RangeError]],
  acquireTimeout: [["5", TypeError], [null, TypeError], [-1, RangeError], [-Infinity, RangeError], [NaN, RangeError]],
  acquireAttemptsLimit: [["5", TypeError], [0, RangeError], [-1, RangeError], [1.5, RangeError], [NaN, RangeError]],
  retryInterval: [["5", TypeError], [-1, RangeError], [NaN, RangeError], [Infinity, RangeError]],
  refreshInterval: [["5", TypeError], [null, TypeError], [-1, RangeError], [NaN, RangeError], [Infinity, RangeError],
    [10_000, RangeError]],
  identifier: [["", TypeError], [5, TypeError], [null, TypeError], ["é".repeat(513), RangeError], ["*", RangeError],
    ["@lock:shared", RangeError]],
  identifierSuffix: [[5, TypeError], ["x".repeat(1_000), RangeError]],
  externallyAcquiredIdentifier: [[5, TypeError], ["x".repeat(1_025), RangeError], ["*", RangeError]],
  ownerPrefix: [[5, TypeError], [null, TypeError], ["é".repeat(500), RangeError]],
  keyPrefix: [[5, TypeError], [null, TypeError], [true, TypeError]],
  lockTimout: [[1_000, TypeError]],
  acquiredExternally: [[1, TypeError], [true, TypeError]],
  onLockLost: [["throw", TypeError], [null, TypeError]],
  requireModule: [[1, TypeError]],
  replicas: [["5", TypeError], [null, TypeError], [-1, RangeError], [1.5, RangeError], [Infinity, RangeError]],
  maxQueue: [["5", TypeError], [null, TypeError], [-1, RangeError], [1.5, RangeError], [NaN, RangeError], [Infinity, RangeError]],
};

for (const [name, values] of Object.entries(REFUSED)) {
  for (const [value, kind] of values) {
    it(`${name}: ${typeof value === "string" ? JSON.stringify(value).slice(0, 12) : value} is a ${kind.name}`, () => {
      assert.throws(() => new Mutex(client, "market", { [name]: value }), kind);
      assert.throws(() => new Semaphore(client, "market", 3, { [name]: value }), kind);
    });
  }
}

for (const [what, make, kind] of [
  ["no client", () => new Mutex(undefined, "market"), TypeError],
  ["a client that is none", () => new Mutex({}, "market"), TypeError],
  ["no key", () => new Mutex(client), TypeError],
  ["an empty key", () => new Mutex(client, ""), TypeError],
  ["no keys", () => new Mutex(client, []), TypeError],
  ["an empty one of several keys", () => new Mutex(client, ["a", ""]), TypeError],
  ["a key that is a number", () => new Mutex(client, ["a", 5]), TypeError],
  ["options that are a number", () => new Mutex(client, "market", 5), TypeError],
  ["options that are null", () => new Mutex(client, "market", null), TypeError],
  ["shared by a word", () => new Mutex(client, "market", { shared: "yes" }), TypeError],
  ["no limit", () => new Semaphore(client, "market"), RangeError],
  ["a limit of 0", () => new Semaphore(client, "market", 0), RangeError],
  ["a limit below 0", () => new Semaphore(client, "market", -1), RangeError],
  ["half a limit", () => new Semaphore(client, "market", 1.5), RangeError],
  ["an endless limit", () => new Semaphore(client, "market", Infinity), RangeError],
  ["a group with a colon", () => new Semaphore(client, "market", 3, { fair: "ann:ben" }), RangeError],
  ["an empty group", () => new Semaphore(client, "market", 3, { fair: "" }), RangeError],
  ["a group that is a number", () => new Semaphore(client, "market", 3, { fair: 5 }), TypeError],
  ["a long group", () => new Semaphore(client, "market", 3, { fair: "x".repeat(1_000) }), RangeError],
  ["a group without a limit", () => new Mutex(client, "market", { fair: "ann" }), TypeError],
  ["a group with several keys", () => new Semaphore(client, ["a", "b"], 3, { fair: "ann" }), TypeError],
  ["a share of no group", () => new Semaphore(client, "market", 3, { per: 2 }), TypeError],
  ["a share of none", () => new Semaphore(client, "market", 3, { fair: "ann", per: 0 }), RangeError],
  ["a limit in words", () => new Semaphore(client, "market", "3"), TypeError],
]) {
  it(`${what} is a ${kind.name}`, () => { assert.throws(make, kind); });
}

it("what is refused is named", () => {
  const refused = (make, message) => assert.throws(make, (error) => message.test(error.message) || assert.fail(error.message));
  refused(() => new Mutex(client, "market", { lockTimout: 5 }), /"lockTimout".*did you mean "lockTimeout"\?$/);
  refused(() => new Mutex(client, "market", { requiremodule: true }), /"requiremodule".*did you mean "requireModule"\?$/);
  refused(() => new Mutex(client, "market", { colour: "red" }), /^a mutex has no option "colour"$/);
  refused(() => new Semaphore(client, "market", 3, { shared: true }), /^a semaphore has no option "shared"$/);
  refused(() => new Semaphore(client, "market", 0), /"limit".*1 or more.*is 0/);
  refused(() => new Mutex(client, "market", { identifier: "*" }), /"\*" can't be an identifier/);
});

it("a signal that is none is a TypeError", async () => {
  for (const signal of [5, null, {}, new AbortController()]) {
    await assert.rejects(new Mutex(client, "market").acquire(signal), TypeError);
    await assert.rejects(new Mutex(client, "market").tryAcquire(signal), TypeError);
  }
});

it("what makes sense is taken", () => {
  for (const options of [
    {}, { lockTimeout: 1 }, { lockTimeout: 1_500.5 }, { acquireTimeout: 0 }, { acquireTimeout: Infinity },
    { acquireAttemptsLimit: Infinity }, { retryInterval: 0 }, { refreshInterval: 0 }, { lockTimeout: undefined },
    { refreshInterval: 9_999 }, { identifier: "é".repeat(512) }, { identifierSuffix: "" }, { acquiredExternally: false },
    { maxQueue: 0 }, { maxQueue: 100 }, { keyPrefix: "" }, { keyPrefix: "app:" }, { ownerPrefix: "" }, { ownerPrefix: "web" },
    { colour: undefined }, { identifier: "**" },
  ]) new Mutex(client, "market", options);
  new Semaphore(client, "market", 1);
});

it("a guarded command that makes no sense is a TypeError", async () => {
  const granting = { sendCommand: async (words) => words[0] === "LOCK.GUARD" ? assert.fail("sent") : 1 };
  const hold = await new Mutex(granting, "market", { refreshInterval: 0 }).acquire();
  for (const words of [[], [5], [""], ["SET", "price", undefined], ["SET", "price", null], ["SET", ["price", 5]], ["SET", {}]]) {
    await assert.rejects(hold.guard(...words), TypeError);
  }
  for (const ttl of [0, -1, "5", NaN]) await assert.rejects(hold.renew(ttl));
});
