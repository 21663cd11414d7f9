"use strict";

// redlock 4 with our scripts, in its place.

const Redlock = require("redlock");
const { redlockScripts } = require("redis-lock-module");

module.exports = class extends Redlock {
  constructor(clients, options) {
    super(clients, { ...redlockScripts, ...options });
  }
};
