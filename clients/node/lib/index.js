"use strict";

const { DeadlockError, LostLockError, TimeoutError } = require("./errors");
const { defaultTimeoutOptions, Mutex, Semaphore } = require("./lock");
const { redlockScripts } = require("./redlock");

module.exports = { DeadlockError, defaultTimeoutOptions, LostLockError, Mutex, redlockScripts, Semaphore, TimeoutError };
