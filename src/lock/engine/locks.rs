//! All locks of a server.

use crate::lock::deadlock::steps::Steps;
use crate::lock::engine::outbox::Outbox;
use crate::lock::engine::outcomes::Offers;
use crate::lock::fence::FencingClock;
use crate::lock::holds::Holds;
use crate::lock::holds::ledger::Ledger;
use crate::lock::log::LossLog;
use crate::lock::stats::{Counts, Remembered};
use crate::lock::waiting::Waiting;
use crate::lock::words::{Db, Limits, Ms, NameRef, Now, Secret};

/// Everything that the server remembers of its locks. After a restart it begins empty: the keys alone
/// then say who holds a lock.
#[derive(Debug)]
pub struct Locks {
    pub(in crate::lock) holds: Holds,
    pub waiting: Waiting,
    pub clock: FencingClock,
    /// Until when writing is put off, because the server has refused it.
    pub(in crate::lock) put_off: Option<Ms>,
    pub(in crate::lock) limits: Limits,
    /// What searches for deadlocks may cost, all together.
    pub(in crate::lock) searches: Steps,
    pub(in crate::lock) counts: Counts,
    pub log: LossLog,
    pub outbox: Outbox,
    /// Until when nothing is granted: by then holds that this server does not know have expired.
    pub(in crate::lock) quarantined_until: Option<Ms>,
    pub offers: Offers,
}

impl Locks {
    pub fn new(now: Now, secret: Secret, in_cluster: bool) -> Self {
        Self {
            holds: Holds::new(secret),
            waiting: Waiting::new(secret),
            clock: FencingClock::new(now, in_cluster),
            put_off: None,
            limits: Limits::DEFAULT,
            searches: Steps::new(),
            counts: Counts::default(),
            log: LossLog::new(Limits::DEFAULT.log_max_len, secret),
            outbox: Outbox::default(),
            quarantined_until: None,
            offers: Offers::default(),
        }
    }

    /// Does this key matter: is there a hold in the ledger, or a queue?
    pub fn concerns(&self, name: NameRef<'_>) -> bool {
        self.waiting.queues.contains(name) || self.holds.held(name).is_some()
    }

    /// Are there no holds in this database, or without one in any, and no queues at all?
    pub fn remember_nothing(&self, db: Option<Db>) -> bool {
        self.holds.remember_nothing(db) && self.waiting.queues.is_empty()
    }

    /// The name of this key.
    #[inline]
    pub fn name<'k>(&self, db: Db, key: &'k [u8]) -> NameRef<'k> {
        self.holds.name(db, key)
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn holds(&self) -> &Holds {
        &self.holds
    }

    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns how many of the holds that were counted when they were granted are still there, and how many
    /// have ended in a way without a counter of its own: their keys were deleted, overwritten, renamed,
    /// flushed, or moved to another server.
    pub fn held_and_lost(&self) -> (u64, u64) {
        let held = u64::try_from(self.holds.count(None, Ledger::counted)).unwrap_or_default();
        let lost = self.counts.acquired.saturating_sub(self.counts.ended());
        (held, lost.saturating_sub(held))
    }

    /// Is all writing put off, because the server has refused it?
    pub(super) fn is_put_off(&self, now: Now) -> bool {
        self.put_off.is_some_and(|until| until > now.ms())
    }

    /// How much is remembered. The time that this takes does not depend on the number of locks.
    pub fn remembered(&self) -> Remembered {
        let Offers { returns, closed, unconfirmed, replied } = &self.offers;
        let tasks = [
            returns.len(),
            closed.len(),
            unconfirmed.len(),
            replied.len(),
            self.outbox.to_reply.len(),
            self.outbox.expired.len(),
            self.holds.discarded(),
            self.holds.count(None, |ledger| ledger.has_left().into()),
        ];
        let waiting = self.waiting.remembered();
        Remembered {
            holds: self.holds.count(None, Ledger::holds),
            sessions: self.holds.count(None, Ledger::sessions),
            tasks: tasks.into_iter().fold(waiting.tasks, usize::saturating_add),
            ..waiting
        }
    }
}
