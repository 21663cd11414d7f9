"use strict";

// Two objects of one client may have one identifier. The server knows a hold by its owner alone: when it was lost, and
// the same owner has been granted the lock again, RENEW and GUARD succeed by the later hold. Its fencing token is larger.

const holds = new WeakMap(); // by connection: those that are held, by owner and keys

const nameOf = ({ identifier }, keys) => JSON.stringify([identifier, ...keys]);

/** From now on until it is forgotten, this hold ends when the same owner has one with a larger fencing token. */
function remember(connection, keys, hold) {
  if (!holds.has(connection)) holds.set(connection, new Map());
  const all = holds.get(connection), name = nameOf(hold, keys), same = all.get(name) ?? new Set();
  all.set(name, same.add(hold));
  const latest = Math.max(...[...same].map(({ fence }) => fence));
  for (const one of same) if (one.fence < latest) one.supersede();
}

function forget(connection, keys, hold) {
  const all = holds.get(connection), name = nameOf(hold, keys), same = all?.get(name);
  if (same?.delete(hold) && same.size === 0) all.delete(name);
}

module.exports = { forget, remember };
