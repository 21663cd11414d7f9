//! Counters since the module was loaded. A request by an owner that already holds the lock is not counted.
//!
//! A hold is counted when it is granted, and once more when it ends, by why it ends. So at any time the holds
//! that were acquired are those that have ended and those that there are.

pub mod classes;
pub mod histogram;

use crate::lock::stats::histogram::Histogram;

/// All counters. A request for several locks counts as many holds.
#[derive(Debug, Default)]
pub struct Counts {
    /// Holds that were granted. An upgrade of a share is not counted: the hold goes on.
    pub acquired: u64,
    /// Granted holds that were waited for.
    pub acquired_after_wait: u64,
    /// Requests that were not to wait, and were not granted.
    pub busy: u64,
    pub wait_timeouts: u64,
    pub released: u64,
    /// Releases by owners that had held the lock and lost it, as far as that is known.
    pub release_refused: u64,
    pub renewed: u64,
    /// Renewals by owners that did not hold the lock.
    pub renew_refused: u64,
    pub expired: u64,
    pub evicted: u64,
    /// Holds that an operator broke.
    pub broken: u64,
    /// Requests that were refused because they would have closed a deadlock.
    pub deadlocks: u64,
    /// Grants that were given back because no client heard of them. An upgrade is not counted if its owner got
    /// its share back.
    pub undelivered: u64,
    /// Grants that were taken back because too few replicas acknowledged them in time.
    pub unacknowledged: u64,
    /// Grants and renewals that replicas have acknowledged before their owners were told.
    pub replicated: u64,
    /// Grants and renewals that were refused because too few replicas were connected, or acknowledged them.
    pub replicas_refused: u64,
    /// How long replicas took to acknowledge those that were told.
    pub replica_waits: Histogram,
    /// Commands that were run under a lock.
    pub guarded: u64,
    /// Commands that were not run, because their owner did not hold the lock.
    pub guard_refused: u64,
    /// The most requests that have waited at the same time.
    pub waiters_peak: u64,
    /// Holds that were not claimed in time.
    pub unclaimed: u64,
    /// Places whose owners did not retry in time.
    pub places_lapsed: u64,
    pub notified: u64,
    /// How long requests waited that were then granted.
    pub waits: Histogram,
}

impl Counts {
    /// This many requests wait now.
    pub fn note_waiting(&mut self, waiting: usize) {
        let waiting = u64::try_from(waiting).unwrap_or_default();
        self.waiters_peak = self.waiters_peak.max(waiting);
    }

    /// How many holds have ended for a reason that has a counter.
    pub fn ended(&self) -> u64 {
        let ends = [
            self.released,
            self.expired,
            self.evicted,
            self.broken,
            self.unclaimed,
            self.undelivered,
            self.unacknowledged,
        ];
        ends.into_iter().fold(0, u64::saturating_add)
    }
}

pub fn count(counter: &mut u64, more: impl TryInto<u64>) {
    *counter = counter.saturating_add(more.try_into().unwrap_or_default());
}

/// How much is remembered of locks, by kind: the proof that nothing is left behind. All are 0 once there are no
/// holds and no waiters, and all pending work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Holds that have an entry in a ledger.
    pub holds: usize,
    /// Connections with holds that end with them, once for each database.
    pub sessions: usize,
    pub queues: usize,
    /// Waiters that have not ended, whether or not they have been replied to; and places.
    pub waiters: usize,
    /// Requests by owner, and owners of locks that have waiters.
    pub owners: usize,
    /// Points in time at which something is due.
    pub alarms: usize,
    /// Pieces of work that are still to be done.
    pub tasks: usize,
}
