//! What is said when the server keeps refusing our writes.

use std::cell::Cell;

use crate::lock::{Ms, Now};

use super::ffi::context;

/// How long it may refuse them before that is worth a line in its log.
const PATIENCE: Ms = 10_000;

/// Since when no grant of ours has been accepted, though one was due.
#[derive(Default)]
pub struct Refusals {
    since: Cell<Option<Ms>>,
    said: Cell<bool>,
}

impl Refusals {
    /// The server has been asked whether it would accept a write.
    pub fn heard(&self, accepted: bool, now: Now) {
        if accepted {
            self.since.set(None);
            self.said.set(false);
            return;
        }
        let since = self.since.get().unwrap_or(now.ms());
        self.since.set(Some(since));
        if now.ms().saturating_sub(since) >= PATIENCE && !self.said.replace(true) {
            context::log_warning(
                "a lock is free and somebody waits for it, but for 10 seconds the server has not \
                 accepted a write of its key (too few replicas, a failing disk, a cluster that is \
                 down, a slot that is moving?); still trying",
            );
        }
    }
}
