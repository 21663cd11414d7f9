//! What is remembered of holds that this server has not granted, once a command comes across them.

use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::{Delivery, Entry, Tally};
use crate::lock::log::line::Reason;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, Ms, NameRef};

impl Locks {
    /// Remembers that this owner is told that it holds the lock. A hold that another client has written
    /// gets a record by that.
    pub(in crate::lock) fn mark_told(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        (hold, until): (Hold, Option<Ms>),
    ) {
        match self.holds.entry(name, owner, hold) {
            // The grant of a place is claimed only by a command that returns its number.
            Some(entry) if entry.delivery.is_told() || self.claim_of(&entry).is_some() => {}
            Some(mut entry) => {
                entry.delivery = Delivery::TOLD;
                self.holds.ledger(name.db).set(name, owner, entry);
            }
            None => self.remember_foreign(turn, name, owner, (hold, until)),
        }
    }

    /// Adds a record, without a number, for a hold that this server did not grant, if it has none.
    pub(in crate::lock) fn remember_foreign(
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
        let others = self.holds.ledger(name.db).put(name, owner, hold, entry);
        self.record_lost(name, Reason::Overwritten, &others, turn.now);
    }
}
