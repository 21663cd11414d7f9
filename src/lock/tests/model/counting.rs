//! What `INFO lock` counts is what has come about.

use super::{Verdict, ensure};
use crate::lock::tests::simulated::Server;

/// Since the server has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    acquired: u64,
    after_wait: u64,
    /// Grants of which the model can't say whether they made a new hold, and those of them that were waited
    /// for.
    unclear: (u64, u64),
    pub busy: u64,
    pub wait_timeouts: u64,
    pub deadlocks: u64,
    renewed: u64,
    renew_refused: u64,
    guarded: u64,
    guard_refused: u64,
}

impl Counted {
    /// A retry of what one holds counts nowhere, nor does making more of a share.
    pub fn granted(&mut self, is_new: Option<bool>, waited: bool) {
        let Some(is_new) = is_new else {
            self.unclear.0 += 1;
            self.unclear.1 += u64::from(waited);
            return;
        };
        self.acquired += u64::from(is_new);
        self.after_wait += u64::from(is_new && waited);
    }

    pub fn renewed(&mut self, done: bool, locks: usize) {
        self.renewed += if done { locks as u64 } else { 0 };
        self.renew_refused += u64::from(!done);
    }

    pub fn guarded(&mut self, done: bool) {
        self.guarded += u64::from(done);
        self.guard_refused += u64::from(!done);
    }

    pub fn compare(&mut self, server: &Server) -> Verdict {
        let counts = server.locks.counts();
        let (unclear, waited) = std::mem::take(&mut self.unclear);
        if (self.acquired..=self.acquired + unclear).contains(&counts.acquired)
            && (self.after_wait..=self.after_wait + waited).contains(&counts.acquired_after_wait)
        {
            (self.acquired, self.after_wait) = (counts.acquired, counts.acquired_after_wait);
        }
        let says = Self {
            acquired: counts.acquired,
            after_wait: counts.acquired_after_wait,
            unclear: (0, 0),
            busy: counts.busy,
            wait_timeouts: counts.wait_timeouts,
            deadlocks: counts.deadlocks,
            renewed: counts.renewed,
            renew_refused: counts.renew_refused,
            guarded: counts.guarded,
            guard_refused: counts.guard_refused,
        };
        ensure(*self == says, || format!("INFO counts {says:?}, and not {self:?}"))
    }
}
