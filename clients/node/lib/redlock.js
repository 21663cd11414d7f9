"use strict";

// redlock's own documented options: each is given the script that it would run, and returns another.

const words = (verb, ...rest) => `
  local words = { 'LOCK.${verb}', #KEYS }
  for _, key in ipairs(KEYS) do table.insert(words, key) end
  for _, word in ipairs({ ${rest.join(", ")} }) do table.insert(words, word) end
`;

const acquireScript = () => `${words("MACQUIRE", "ARGV[1]", "ARGV[2]")}
  return redis.call(unpack(words)) and #KEYS or 0
`;

const extendScript = () => `${words("MRENEW", "ARGV[1]", "ARGV[2]")}
  return redis.call(unpack(words)) == 1 and #KEYS or 0
`;

const releaseScript = () => `${words("MRELEASE", "ARGV[1]")}
  return redis.call(unpack(words))
`;

/** For redlock 5, `new Redlock(clients, settings, redlockScripts)`; for 4, `new Redlock(clients, { ...redlockScripts })`. */
const redlockScripts = Object.freeze({
  acquireScript,
  extendScript,
  releaseScript,
  // as redlock 4 calls them
  lockScript: acquireScript,
  unlockScript: releaseScript,
});

module.exports = { redlockScripts };
