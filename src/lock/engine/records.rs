//! Records of holds: what commands and ticks write down when a hold begins, goes on, or was found to have ended.

use crate::lock::engine::locks::Locks;
use crate::lock::engine::lost::{Journal, claim_of, is_pending};
use crate::lock::fence::FencingClock;
use crate::lock::holds::ledger::{Delivery, Entry, Tally};
use crate::lock::holds::{Holds, Lost};
use crate::lock::limits::Limits;
use crate::lock::log::entry::Reason;
use crate::lock::turn::Turn;
use crate::lock::waiting::Waiting;
use crate::lock::words::{Hold, Ms, NameRef, Ticket};

/// The holds of one lock, and what is counted and logged of them. Requests that wait are only read.
pub struct Records<'l, 'k> {
    pub(super) turn: &'l mut Turn<'k>,
    pub(super) name: NameRef<'l>,
    pub(super) holds: &'l mut Holds,
    pub(super) clock: &'l FencingClock,
    pub(super) limits: &'l Limits,
    pub(super) journal: Journal<'l>,
}

impl Locks {
    #[inline]
    pub fn records<'l, 'k>(
        &'l mut self,
        turn: &'l mut Turn<'k>,
        name: NameRef<'l>,
    ) -> Records<'l, 'k> {
        let Self { holds, waiting, clock, limits, counts, log, .. } = self;
        let Waiting { waits, pending, queues, classes, .. } = waiting;
        let now = turn.now;
        let journal = Journal { name, now, waits, pending, queues, counts, classes, log };
        Records { turn, name, holds, clock, limits, journal }
    }

    /// Corrects the key of a lock after a step of the clock, before anything is done to the lock; see
    /// [`Holds::meet`].
    #[inline(always)]
    pub(super) fn meet(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.holds.may_miss_keys(turn.now) {
            let lost = self.holds.meet(turn, name);
            self.records(turn, name).record_ended(lost);
        }
    }
}

impl Records<'_, '_> {
    /// Removes from the key what is over, before a share in it is written; see [`Holds::make_room`].
    pub(super) fn make_room(&mut self) {
        let lost = self.holds.make_room(self.turn, self.name);
        self.record_ended(lost);
    }

    /// Forgets shares that other clients have removed; see [`Holds::forget_removed`].
    pub(super) fn forget_removed(&mut self) {
        let removed = self.holds.forget_removed(self.turn, self.name);
        self.record_ended(removed);
    }

    /// May the lock be granted or ended now? Not while its key has still to be written again.
    pub(super) fn may_write(&mut self) -> bool {
        self.turn.keys.may_write(self.name)
            && !(self.holds.may_miss_keys(self.turn.now) && self.holds.is_missing(self.name))
    }

    /// Does this owner not have its hold yet, because replicas have to acknowledge it?
    pub(super) fn is_pending(&self, owner: &[u8], hold: Hold) -> bool {
        let entry = self.holds.entry(self.name, owner, hold);
        entry.is_some_and(|entry| is_pending(self.journal.waits, &entry))
    }

    /// The place that the hold of this owner is offered to, which holds the lock so.
    pub(super) fn claim_at(&self, owner: &[u8], hold: Hold) -> Option<Ticket> {
        let entry =
            self.journal.waits.has_places().then(|| self.holds.entry(self.name, owner, hold));
        claim_of(self.journal.waits, &entry.flatten()?)
    }

    /// Remembers that this owner gets to know that it holds the lock. A hold that another client has written
    /// gets a record by that. Returns false if it must not know yet, because replicas have to acknowledge it.
    pub(super) fn mark_told(&mut self, owner: &[u8], (hold, until): (Hold, Option<Ms>)) -> bool {
        match self.holds.entry(self.name, owner, hold) {
            Some(entry) if entry.delivery.is_told() => {}
            Some(entry) if is_pending(self.journal.waits, &entry) => return false,
            // The grant of a place is claimed only by a command that returns its token.
            Some(entry) if claim_of(self.journal.waits, &entry).is_some() => {}
            Some(mut entry) => {
                entry.delivery = Delivery::Told;
                self.holds.ledger(self.name.db).set(self.name, owner, entry);
            }
            None => self.remember_foreign(owner, (hold, until)),
        }
        true
    }

    /// Adds a record, without a token, for a hold that this server did not grant, if it has none.
    pub(super) fn remember_foreign(&mut self, owner: &[u8], (hold, until): (Hold, Option<Ms>)) {
        if self.holds.entry(self.name, owner, hold).is_some() {
            return;
        }
        self.forget_removed();
        let slot = self.clock.slot(self.name.key);
        let entry = Entry::foreign(until, slot, Tally::Uncounted, self.turn.now);
        let others = self.holds.ledger(self.name.db).put(self.name, owner, hold, entry);
        self.journal.record_lost(&Lost::all(others, Reason::Overwritten));
    }
}
