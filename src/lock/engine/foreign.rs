//! What is remembered of holds that this server has not granted, once a command comes across them.

use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::{Delivery, End, Entry, Number, Tally, Tied};
use crate::lock::log::line::Reason;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, NameRef};

impl Locks {
    /// Remembers that this owner is told that it holds the lock. A hold that another client has written
    /// gets a record by that.
    pub(in crate::lock) fn mark_told(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) {
        if self.holds.ledger(name.db).is_told(name.key, owner, hold) {
            return;
        }
        match self.holds.entry(name, owner, hold) {
            // The grant of a place is claimed only by a command that returns its number.
            Some(entry) if self.claim_of(&entry).is_some() => {}
            Some(mut entry) => {
                entry.delivery = Delivery::TOLD;
                self.holds.ledger(name.db).set(name.key, owner, hold, entry);
            }
            None => self.remember_foreign(turn, name, owner, hold),
        }
    }

    /// Adds a record, without a number, for a hold that this server did not grant, if it has none.
    pub(in crate::lock) fn remember_foreign(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) {
        if self.holds.entry(name, owner, hold).is_some() {
            return;
        }
        let mut share = None;
        if hold == Hold::Shared {
            self.forget_removed(turn, name);
            share = turn.keys.share_of(name, owner);
        }
        let entry = Entry {
            number: Number::newer_than(0),
            end: End::key(share.and_then(|share| share.deadline)),
            slot: self.clock.slot(name.key),
            since: turn.now.ms(),
            client: 0,
            tied: Tied::No,
            delivery: Delivery::TOLD,
            tally: Tally::Uncounted,
        };
        let others = self.holds.ledger(name.db).write(name.key, owner, hold, entry);
        self.record_lost(name, Reason::Overwritten, &others, turn.now);
    }
}
