//! What the server's log says by itself: that the server keeps refusing our writes.

use std::cell::Cell;

use super::ffi::context;
use crate::lock::{Ms, Now};

/// How long the server may refuse our writes before that is worth a line.
const PATIENCE: Ms = 10_000;

/// Since when no grant of ours has been accepted, though one was due; and whether there was a line on that.
#[derive(Default)]
pub struct Reports(Cell<Option<(Ms, bool)>>);

impl Reports {
    /// The server has been asked whether it would accept a write.
    pub fn asked_to_write(&self, accepted: bool, now: Now) {
        if accepted {
            return self.0.set(None);
        }
        let (since, was_said) = self.0.get().unwrap_or((now.ms(), false));
        let is_long = now.ms().saturating_sub(since) >= PATIENCE;
        self.0.set(Some((since, was_said || is_long)));
        if is_long && !was_said {
            context::log_warning(
                "a waiter can't be granted a free lock: for 10 seconds the server has refused writes \
                 to its key (too few replicas, a failing disk, a cluster that is down, a migrating \
                 slot?); still retrying",
            );
        }
    }
}
