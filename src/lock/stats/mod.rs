//! What has been done since the module was loaded. Asking again for what one holds counts nowhere.
//!
//! A hold is counted when it is granted, and once more when it ends, by what has ended it. So at any time those
//! that were acquired are those that have ended and those that there are.

pub mod histogram;
pub mod remembered;

use crate::lock::stats::histogram::Histogram;

/// Counters, of holds where several locks are asked for at once.
#[derive(Debug)]
pub struct Counts {
    /// Holds that were granted. A share of which more is made goes on.
    pub acquired: u64,
    /// Those of them that were waited for.
    pub acquired_after_wait: u64,
    /// Requests that would not wait, and got nothing.
    pub busy: u64,
    /// Waits whose time was up.
    pub wait_timeouts: u64,
    /// Holds that their owners ended.
    pub released: u64,
    /// Releases by owners that had held the lock and lost it, as far as that is known.
    pub release_refused: u64,
    /// Holds whose end was moved.
    pub renewed: u64,
    /// Renewals by owners that did not hold the lock.
    pub renew_refused: u64,
    /// Holds that ran out.
    pub expired: u64,
    /// Holds that the server evicted.
    pub evicted: u64,
    /// Holds that an operator ended.
    pub broken: u64,
    /// Requests that were refused because they would have waited for themselves.
    pub deadlocks: u64,
    /// Grants that nobody heard of, and that were given back; but for those of more than a share, after
    /// which their owners have the share again.
    pub undelivered: u64,
    /// Commands that were run under a lock.
    pub guarded: u64,
    /// Commands that were not run, because their owner did not hold the lock.
    pub guard_refused: u64,
    /// The most that have waited at once.
    pub waiters_peak: u64,
    /// Holds that were not claimed in time.
    pub unclaimed: u64,
    /// Places whose owners did not ask again in time.
    pub places_lapsed: u64,
    /// Messages that were published.
    pub notified: u64,
    /// How long those have waited who were granted what they waited for.
    pub waits: Histogram,
}

impl Counts {
    /// Nothing has been done yet.
    pub fn new() -> Self {
        Self {
            acquired: 0,
            acquired_after_wait: 0,
            busy: 0,
            wait_timeouts: 0,
            released: 0,
            release_refused: 0,
            renewed: 0,
            renew_refused: 0,
            expired: 0,
            evicted: 0,
            broken: 0,
            deadlocks: 0,
            undelivered: 0,
            guarded: 0,
            guard_refused: 0,
            waiters_peak: 0,
            unclaimed: 0,
            places_lapsed: 0,
            notified: 0,
            waits: Histogram::new(),
        }
    }
}

impl Counts {
    /// The holds that have ended by what is counted apart.
    pub fn ended(&self) -> u64 {
        let ends = [
            self.released,
            self.expired,
            self.evicted,
            self.broken,
            self.unclaimed,
            self.undelivered,
        ];
        ends.into_iter().fold(0, u64::saturating_add)
    }
}

/// So many more.
pub fn count(counter: &mut u64, more: impl TryInto<u64>) {
    *counter = counter.saturating_add(more.try_into().unwrap_or_default());
}
