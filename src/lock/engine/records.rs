//! Records of holds: what commands and ticks write down when a hold begins, goes on, or was found to have ended.

use crate::lock::engine::locks::Locks;
use crate::lock::fence::FencingClock;
use crate::lock::holds::Holds;
use crate::lock::holds::ledger::{Delivery, Entry, Tally};
use crate::lock::limits::Limits;
use crate::lock::log::LossLog;
use crate::lock::log::line::Reason;
use crate::lock::stats::Counts;
use crate::lock::stats::classes::Classes;
use crate::lock::turn::Turn;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::queues::Queues;
use crate::lock::waiting::waits::Waits;
use crate::lock::words::{Hold, Ms, NameRef, Ticket};

/// Holds, their counters and their log. Requests that wait are only read.
pub struct Records<'l> {
    pub(super) holds: &'l mut Holds,
    pub(super) waits: &'l Waits,
    pub(super) queues: &'l Queues,
    pub(super) clock: &'l FencingClock,
    pub(super) limits: &'l Limits,
    pub(super) counts: &'l mut Counts,
    pub(super) classes: &'l mut Classes,
    pub(super) log: &'l mut LossLog,
}

impl Locks {
    #[inline]
    pub fn records(&mut self) -> Records<'_> {
        let Self { holds, waiting, clock, limits, counts, log, .. } = self;
        let Waiting { waits, queues, classes, .. } = waiting;
        Records { holds, waits, queues, clock, limits, counts, classes, log }
    }
}

impl Records<'_> {
    /// Corrects the key of a lock after a step of the clock, before anything is done to the lock; see
    /// [`Holds::meet`].
    #[inline]
    pub(in crate::lock) fn meet(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let lost = self.holds.meet(turn, name);
        self.record_ended(turn, name, lost);
    }

    /// May this lock be granted or ended now? Not while its key has still to be written again.
    pub(super) fn may_write(&self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        turn.keys.may_write(name)
            && !(self.holds.may_miss_keys(turn.now) && self.holds.is_missing(name))
    }

    /// The place that this hold is offered to: its owner has yet to claim it.
    #[inline]
    pub(super) fn claim_of(&self, entry: &Entry) -> Option<Ticket> {
        entry.delivery.offered_to().filter(|&ticket| self.waits.is_place(ticket))
    }

    /// The place that the hold of this owner is offered to, which holds the lock so.
    pub(super) fn claim_at(&self, name: NameRef<'_>, owner: &[u8], hold: Hold) -> Option<Ticket> {
        let entry = self.waits.has_places().then(|| self.holds.entry(name, owner, hold));
        self.claim_of(&entry.flatten()?)
    }

    /// Remembers that this owner gets to know that it holds the lock. A hold that another client has written
    /// gets a record by that.
    pub(super) fn mark_told(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        (hold, until): (Hold, Option<Ms>),
    ) {
        match self.holds.entry(name, owner, hold) {
            // The grant of a place is claimed only by a command that returns its token.
            Some(entry) if entry.delivery.is_told() || self.claim_of(&entry).is_some() => {}
            Some(mut entry) => {
                entry.delivery = Delivery::TOLD;
                self.holds.ledger(name.db).set(name.key, owner, entry);
            }
            None => self.remember_foreign(turn, name, owner, (hold, until)),
        }
    }

    /// Adds a record, without a token, for a hold that this server did not grant, if it has none.
    pub(super) fn remember_foreign(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        (hold, until): (Hold, Option<Ms>),
    ) {
        if self.holds.entry(name, owner, hold).is_some() {
            return;
        }
        let removed = self.holds.forget_removed(turn, name);
        self.record_ended(turn, name, removed);
        let entry = Entry::foreign(until, self.clock.slot(name.key), Tally::Uncounted, turn.now);
        let others = self.holds.ledger(name.db).put(name.key, owner, hold, entry);
        self.record_lost(name, Reason::Overwritten, &others, turn.now);
    }
}
