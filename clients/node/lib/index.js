"use strict";

const { DeadlockError, LostLockError, ModuleMissingError, TimeoutError } = require("./errors");
const { defaultTimeoutOptions, Mutex, Semaphore } = require("./lock");
const { redlockScripts } = require("./redlock");

module.exports = {
  DeadlockError, defaultTimeoutOptions, LostLockError, ModuleMissingError, Mutex, redlockScripts, Semaphore, TimeoutError,
};
