//! Tells owners whether they hold a lock, and remembers that they have been told.

use super::ledger::delivery::{Delivery, News};
use super::ledger::entry::Entry;
use super::locks::Locks;
use super::log::line::{Comeback, Reason};
use super::losses::Seen;
use super::name::NameRef;
use super::report::{Left, left_until};
use super::request::{Hold, NotALock};
use super::state::Turn;
use super::stats::count;

impl Locks {
    /// `LOCK.CHECK`: returns what is left of this owner's hold, if it has one.
    pub fn check(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<Option<Left>, NotALock> {
        let Some((hold, deadline)) = self.hold_now(turn, name, owner)? else {
            self.record_comeback(turn, name, owner, Comeback::Check);
            return Ok(None);
        };
        self.mark_told(turn, name, owner, hold);
        Ok(Some(left_until(deadline, turn.now)))
    }

    /// `LOCK.GUARD`: returns whether this owner holds the lock, so that a command may be run.
    pub fn guard(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<bool, NotALock> {
        self.meet(turn, name, Some(owner));
        self.settle_queue(turn, name);
        let held = self.hold_in_key(turn, name, owner)?;
        match held {
            Some((hold, _)) => {
                self.mark_told(turn, name, owner, hold);
                count(&mut self.counts.guarded, 1);
            }
            None => {
                self.record_comeback(turn, name, owner, Comeback::Guard);
                count(&mut self.counts.guard_refused, 1);
            }
        }
        Ok(held.is_some())
    }

    /// Remembers that this owner is told that it holds the lock. A hold that another client has written
    /// gets a record by that.
    pub(super) fn mark_told(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) {
        // The grant of a place is claimed only by a command that returns its number.
        if self.is_unclaimed(name, owner, hold) {
            return;
        }
        let ledger = self.ledger(name.db);
        if ledger.is_told(name.key, owner, hold) {
            return;
        }
        match ledger.of(name.key, owner, hold) {
            Some(mut entry) => {
                entry.delivery.hear(News::Told);
                ledger.set(name.key, owner, hold, entry);
            }
            None => self.remember_foreign(turn, name, owner, hold),
        }
    }

    /// Adds a record, without a number, for a hold that this server did not grant.
    pub(super) fn remember_foreign(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) {
        let mut share = None;
        if hold == Hold::Shared {
            self.forget_removed(turn, name);
            share = turn.keys.share_of(name, owner);
        }
        let entry = Entry {
            fence: None,
            first: 0,
            slot: self.clock.slot(name.key),
            since: turn.now.ms(),
            end: share.and_then(|share| share.deadline),
            by_wall: true,
            reserved: false,
            client: 0,
            tied: false,
            closed: false,
            breaking: false,
            delivery: Delivery::TOLD,
            step: 0,
            counted: false,
        };
        let others = self.ledger(name.db).write(name.key, owner, hold, entry);
        self.record_lost(name, (Reason::Overwritten, Seen::Later), &others, turn.now);
    }
}
