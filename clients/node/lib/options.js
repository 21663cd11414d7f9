"use strict";

// What makes no sense is refused by the constructor, before anything is sent.

const { nearest } = require("./nearest");

const LONGEST = 2 ** 52; // the server's own limit on `now + ttl` is a little beyond

function number(name, value, { least = 0, most = LONGEST, whole = false }) {
  if (typeof value !== "number") throw new TypeError(`"${name}" must be a number`);
  const fits = value >= least && (value <= most || (value === Infinity && most === Infinity));
  if (!fits || (whole && value !== Infinity && !Number.isInteger(value))) {
    throw new RangeError(`"${name}" must be ${whole ? "a whole number, " : ""}at least ${least}` +
      `${most === Infinity ? "" : " and finite"}, and is ${value}`);
  }
  return value;
}

function kind(name, value, expected) {
  if (value !== undefined && typeof value !== expected) throw new TypeError(`"${name}" must be a ${expected}`);
}

const checkLockTimeout = (value) => number("lockTimeout", value, { least: 1 });

function checkTimes({ lockTimeout, acquireTimeout, acquireAttemptsLimit, retryInterval, refreshInterval }) {
  checkLockTimeout(lockTimeout);
  number("acquireTimeout", acquireTimeout, { most: Infinity });
  number("acquireAttemptsLimit", acquireAttemptsLimit, { least: 1, most: Infinity, whole: true });
  if (retryInterval !== undefined) number("retryInterval", retryInterval, {});
  if (refreshInterval === undefined) return;
  number("refreshInterval", refreshInterval, {});
  if (refreshInterval >= lockTimeout) {
    throw new RangeError('"refreshInterval" must be less than "lockTimeout", or nothing is renewed in time');
  }
}

// To the server the one asks it for an owner, and the other is what tells a shared lock from a sorted set.
const NO_OWNERS = ["*", "@lock:shared"];

const A_UUID = "00000000-0000-4000-8000-000000000000";

function checkOwner(options) {
  const { identifier, acquiredExternally, externallyAcquiredIdentifier, ownerPrefix, identifierSuffix, fair } = options;
  if (identifier !== undefined && (!identifier || typeof identifier !== "string")) {
    throw new TypeError("identifier must be not empty random string");
  }
  const given = identifier ?? externallyAcquiredIdentifier;
  if (NO_OWNERS.includes(given)) {
    throw new RangeError(`"${given}" can't be an identifier, because it means something else to the server`);
  }
  kind("acquiredExternally", acquiredExternally, "boolean");
  if (acquiredExternally && !identifier) {
    throw new TypeError("acquiredExternally=true meanless without custom identifier");
  }
  kind("externallyAcquiredIdentifier", externallyAcquiredIdentifier, "string");
  if (externallyAcquiredIdentifier && (identifier || acquiredExternally)) {
    throw new TypeError("Invalid usage. Use custom identifier and acquiredExternally: true");
  }
  kind("ownerPrefix", ownerPrefix, "string");
  kind("identifierSuffix", identifierSuffix, "string");
  const longest = given || `${ownerPrefix}:${A_UUID}-${identifierSuffix ?? ""}`;
  if (Buffer.byteLength(fair === undefined ? longest : `${fair}:${longest}`) > 1_024) throw new RangeError("an identifier has at most 1024 bytes");
}

const OPTIONS = [
  "lockTimeout", "acquireTimeout", "acquireAttemptsLimit", "retryInterval", "refreshInterval", "keyPrefix", "identifier",
  "ownerPrefix", "identifierSuffix", "acquiredExternally", "externallyAcquiredIdentifier", "onLockLost", "requireModule",
  "maxQueue", "replicas",
];
const OPTIONS_OF = { mutex: new Set([...OPTIONS, "shared"]), semaphore: new Set([...OPTIONS, "fair", "per"]) };

/** The options with the defaults in place of what is undefined. */
function checked(options, defaults, lock) {
  if (typeof options !== "object" || options === null) throw new TypeError('"options" must be an object');
  const all = { ...defaults };
  for (const name of Object.keys(options)) {
    if (options[name] === undefined) continue;
    if (!OPTIONS_OF[lock].has(name)) {
      const near = nearest(name, OPTIONS_OF[lock]);
      throw new TypeError(`a ${lock} has no option "${name}"${near ? `: did you mean "${near}"?` : ""}`);
    }
    all[name] = options[name];
  }
  checkTimes(all);
  checkOwner(all);
  kind("keyPrefix", all.keyPrefix, "string");
  kind("onLockLost", all.onLockLost, "function");
  kind("requireModule", all.requireModule, "boolean");
  if (all.maxQueue !== undefined) number("maxQueue", all.maxQueue, { most: Number.MAX_SAFE_INTEGER, whole: true });
  if (all.replicas !== undefined) number("replicas", all.replicas, { most: Number.MAX_SAFE_INTEGER, whole: true });
  checkGroup(all);
  return all;
}

// The server takes what stands before the first colon of an owner for its group.
function checkGroup({ fair, per }) {
  kind("fair", fair, "string");
  if (fair === "" || fair?.includes(":")) throw new RangeError(`"fair" must be the name of a group, without a colon, and is "${fair}"`);
  if (per === undefined) return;
  number("per", per, { least: 1, most: Number.MAX_SAFE_INTEGER, whole: true });
  if (fair === undefined) throw new TypeError('"per" needs "fair"');
}

function checkLimit(limit) {
  if (limit === undefined || limit === null) throw new RangeError('"limit" is required');
  if (typeof limit !== "number") throw new TypeError('"limit" must be a number');
  if (limit === 0) throw new RangeError('"limit" is required to be 1 or more, and is 0'); // and begins as redis-semaphore's
  return number("limit", limit, { least: 1, most: Number.MAX_SAFE_INTEGER, whole: true });
}

function checkShared(shared) {
  kind("shared", shared, "boolean");
  return !!shared;
}

function checkKeys(key) {
  if (!key || key.length === 0) throw new TypeError('"key" is required');
  const keys = Array.isArray(key) ? key : [key];
  for (const one of keys) {
    if (typeof one !== "string") throw new TypeError('"key" must be a string');
    if (!one) throw new TypeError('"key" is required');
  }
  return keys;
}

function checkSignal(signal) {
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError('"signal" must be an AbortSignal');
}

function checkCommand(words) {
  const [name] = words;
  if (typeof name !== "string" || !name) throw new TypeError("guard needs the name of a command");
  for (const word of words) {
    if (typeof word !== "string" && typeof word !== "number" && !Buffer.isBuffer(word)) {
      throw new TypeError("the arguments of a command are strings, numbers and Buffers");
    }
  }
}

module.exports = { checkCommand, checked, checkKeys, checkLimit, checkLockTimeout, checkShared, checkSignal };
