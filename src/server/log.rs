//! Waits that took long, and holds that ran out while others waited: told to the server's latency
//! monitor and to its log.

use std::cell::Cell;

use redis_module::raw;

use crate::lock::{Lapse, Ms, Now};

use crate::protocol::shown;

use super::ffi::call;
use super::ffi::context::{self, Ctx};

/// From how long on the latency monitor wants to hear of something.
#[derive(Default)]
pub struct SlowWaits {
    /// Asked anew when any setting has changed.
    threshold: Cell<Option<Ms>>,
}

impl SlowWaits {
    /// A setting has changed.
    pub fn forget_threshold(&self) {
        self.threshold.set(None);
    }

    /// So long have some waited that have been granted something now.
    pub fn tell(&self, ctx: Ctx<'_>, waited: &[Ms]) {
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
            // SAFETY: the server wrote the address once, and the text ends where it should.
            unsafe {
                if let Some(add) = raw::RedisModule_LatencyAddSample {
                    add(c"lock-wait".as_ptr(), waited);
                }
            }
        }
    }
}

/// At most one line in so long.
const BETWEEN_LINES: Ms = 1000;

/// What the log has been told of holds that ran out.
#[derive(Default)]
pub struct Lapses {
    last: Cell<Ms>,
    untold: Cell<usize>,
}

impl Lapses {
    /// These have run out while others waited.
    pub fn tell(&self, lapsed: &[Lapse], now: Now) {
        let Some(lapse) = lapsed.last() else { return };
        let untold = self.untold.get().saturating_add(lapsed.len());
        if now.ms().abs_diff(self.last.get()) < BETWEEN_LINES {
            return self.untold.set(untold);
        }
        self.last.set(now.ms());
        self.untold.set(0);
        let others = match untold.saturating_sub(1) {
            0 => String::new(),
            others => format!(" ({others} more since the last such line)"),
        };
        context::log_notice(&format!(
            "the hold of {} on {} in database {} ran out while others waited for it: its client may not know{others}",
            shown(&lapse.owner),
            shown(&lapse.name.key),
            lapse.name.db,
        ));
    }
}
