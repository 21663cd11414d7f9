"use strict";

// Whose release it is, where several tasks share one Mutex or Semaphore: that of the hold which the same flow of calls
// has acquired. A hold's own release() needs none of this.

const { AsyncLocalStorage } = require("node:async_hooks");

const flow = new AsyncLocalStorage();

/** To be called at once, and not after an `await`: it marks the flow of its caller. */
function begin(lock) {
  const acquiring = { lock, hold: null, isOver: false };
  flow.enterWith([...(flow.getStore() ?? []).filter(({ isOver, hold }) => !isOver && !hold?.isReleased), acquiring]);
  return acquiring;
}

/** The hold that this flow has acquired by this object last, and has not released, lost or not. */
function holdOf(lock) {
  return flow.getStore()?.findLast((one) => one.lock === lock && one.hold && !one.hold.isReleased)?.hold;
}

module.exports = { begin, holdOf };
