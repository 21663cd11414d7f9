"use strict";

/** An AbortController that makes its signal when it is first asked for: most are not, and a signal costs as much as a request. */
class Over {
  #controller = null;
  #reason; #isAborted = false;

  get signal() {
    this.#controller ??= new AbortController();
    if (this.#isAborted) this.#controller.abort(this.#reason);
    return this.#controller.signal;
  }

  abort(reason) {
    this.#isAborted = true;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }
}

module.exports = { Over };
