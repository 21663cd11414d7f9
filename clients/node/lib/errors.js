"use strict";

class NamedError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = this.constructor.name;
  }
}

/** A lock was not to be had in time. */
class TimeoutError extends NamedError {}

/** A hold has ended before it was released: another owner may have worked beside us. `cause` says how that is known. */
class LostLockError extends NamedError {
  constructor(message, { key, identifier, fence, ...options } = {}) {
    super(message, options);
    Object.assign(this, { key, identifier, fence, at: new Date() });
  }
}

/** The request would have waited for its own owner (or may have: TOOCOMPLEX), and was refused at once. */
class DeadlockError extends NamedError {}

/** What was asked for needs the redis-lock module, and the server has not loaded it, or an older one: of this `version`. */
class ModuleMissingError extends NamedError {
  constructor(what, options) {
    super(
      options?.version !== undefined ? `${what} version 2.0 of the redis-lock module, and this server has ${options.version || "an older one"}.` :
      `${what} the redis-lock module, which this server has not loaded. Load it with "MODULE LOAD ` +
      '/path/to/libredis_lock.so", or with "loadmodule" in the server\'s configuration file.', options,
    );
  }
}

// What a server says of itself, and not of the request: asked again, there or elsewhere, it may say something else.
const PASSING = ["UNBLOCKED", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN"];

/** The code word of a server's error; undefined for what the client says itself, as of a broken connection. */
const codeOf = (error) => /^([A-Z]{2,}) /.exec(error?.message)?.[1];

// The owner has another request that waits, or shares the lock.
const isAboutSomethingElse = (error) => ["REPLACED", "ONEWAIT", "NOUPGRADE"].includes(codeOf(error));

// Too few replicas have acknowledged what it has changed.
const mayHaveChanged = (error) => codeOf(error) === "NOREPLICAS";

const maySaySomethingElse = (error) => codeOf(error) === undefined || PASSING.includes(codeOf(error));

/** The server does not know this command (a whole name, or how one begins). */
const isUnknown = (error, command) => {
  const [, name] = /^ERR (?:unknown command|command is not available)\W{1,4}([\w.]+)/i.exec(error?.message) ?? [];
  return name !== undefined && name.toUpperCase().startsWith(command);
};

module.exports = {
  codeOf, DeadlockError, isAboutSomethingElse, isUnknown, LostLockError, mayHaveChanged, maySaySomethingElse, ModuleMissingError,
  TimeoutError,
};
