//! What the server's log says by itself: that the server keeps refusing our writes.

use std::cell::Cell;

use super::ffi::context;
use crate::lock::{Ms, Now};

/// How long the server may refuse our writes before that is worth a line.
const PATIENCE: Ms = 10_000;

/// Since when writes are refused.
#[derive(Default)]
pub struct Reports {
    /// Since when no grant of ours has been accepted, though one was due; and whether there was a line on that.
    refused_since: Cell<Option<Ms>>,
    has_said_so: Cell<bool>,
}

impl Reports {
    /// The server has been asked whether it would accept a write.
    pub fn asked_to_write(&self, accepted: bool, now: Now) {
        if accepted {
            self.refused_since.set(None);
            self.has_said_so.set(false);
            return;
        }
        let since = self.refused_since.get().unwrap_or(now.ms());
        self.refused_since.set(Some(since));
        if now.ms().saturating_sub(since) >= PATIENCE && !self.has_said_so.replace(true) {
            context::log_warning(
                "a lock is free and a client waits for it, but for 10 seconds the server has not \
                 accepted a write of its key (too few replicas, a failing disk, a cluster that is \
                 down, a slot that is moving?); still trying",
            );
        }
    }
}
