"use strict";

class NamedError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = this.constructor.name;
  }
}

/** A lock was not to be had in time. */
class TimeoutError extends NamedError {}

/** A hold has ended before it was released: somebody else may have worked beside us. */
class LostLockError extends NamedError {}

/** The request would have waited for its own owner (or may have: TOOCOMPLEX), and was refused at once. */
class DeadlockError extends NamedError {}

// What a server says of itself, and not of the request: asked again, there or elsewhere, it may say something else.
const PASSING = ["UNBLOCKED", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN"];

/** The code word of a server's error; undefined for what the client says itself, as of a broken connection. */
const codeOf = (error) => /^([A-Z]{2,}) /.exec(error?.message)?.[1];

const maySaySomethingElse = (error) => codeOf(error) === undefined || PASSING.includes(codeOf(error));

module.exports = { codeOf, DeadlockError, LostLockError, maySaySomethingElse, TimeoutError };
