//! What the server's latency monitor and its log are told: waits that took long, holds that ran out while others
//! waited, and that the server keeps refusing our writes.

use std::cell::Cell;

use super::ffi::{Ctx, api, call, context};
use crate::lock::{Lapse, Ms, Now};
use crate::protocol::shown;

/// There is at most one line on holds that ran out in this time.
const BETWEEN_LINES: Ms = 1000;

/// How long the server may refuse our writes before that is worth a line.
const PATIENCE: Ms = 10_000;

/// What they have been told, and what they want to be told.
#[derive(Default)]
pub struct Reports {
    /// From how long on the latency monitor wants to hear of a wait. Asked anew when any setting has changed.
    threshold: Cell<Option<Ms>>,
    /// When there was the last line on holds that ran out, and on how many there has been none since.
    last_line: Cell<Ms>,
    untold: Cell<usize>,
    /// Since when no grant of ours has been accepted, though one was due; and whether there was a line on that.
    refused_since: Cell<Option<Ms>>,
    has_said_so: Cell<bool>,
}

impl Reports {
    /// A setting has changed.
    pub fn settings_changed(&self) {
        self.threshold.set(None);
    }

    /// Waiters have been granted their locks, after waits of these lengths.
    pub fn waited(&self, ctx: Ctx<'_>, waited: &[Ms]) {
        let Some(&longest) = waited.iter().max() else {
            return;
        };
        let threshold = self.threshold.get().unwrap_or_else(|| {
            let said = call::setting(ctx, c"latency-monitor-threshold").unwrap_or_default();
            let said = String::from_utf8_lossy(&said).parse().unwrap_or_default();
            self.threshold.set(Some(said));
            said
        });
        // The server would take a sample although its monitor is off.
        if threshold == 0 || longest < threshold {
            return;
        }
        for &waited in waited.iter().filter(|&&waited| waited >= threshold) {
            let waited = i64::try_from(waited).unwrap_or(i64::MAX);
            // SAFETY: the text ends where it should.
            unsafe { api::latency_add_sample(c"lock-wait".as_ptr(), waited) };
        }
    }

    /// These holds have run out while others waited.
    pub fn lapsed(&self, lapsed: &[Lapse], now: Now) {
        let Some(lapse) = lapsed.last() else { return };
        let untold = self.untold.get().saturating_add(lapsed.len());
        if now.ms().abs_diff(self.last_line.get()) < BETWEEN_LINES {
            return self.untold.set(untold);
        }
        self.last_line.set(now.ms());
        self.untold.set(0);
        let others = match untold.saturating_sub(1) {
            0 => String::new(),
            others => format!(" ({others} more since the last such line)"),
        };
        context::log_notice(&format!(
            "the lock {} in database {}, held by {}, expired with clients waiting; its holder may not know{others}",
            shown(&lapse.name.key),
            lapse.name.db,
            shown(&lapse.owner),
        ));
    }

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
