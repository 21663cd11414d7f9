//! Does an owner hold a lock? And does it know that?

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
    /// `LOCK.CHECK`: what is left of this owner's hold, if it has one.
    pub fn check(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<Option<Left>, NotALock> {
        let Some((hold, deadline)) = self.hold_now(turn, name, owner)? else {
            self.came_back(turn, name, owner, Comeback::Check);
            return Ok(None);
        };
        self.tell(turn, name, owner, hold);
        Ok(Some(left_until(deadline, turn.now)))
    }

    /// `LOCK.GUARD`: does this owner hold the lock, so that what follows may be done?
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
                self.tell(turn, name, owner, hold);
                count(&mut self.counts.guarded, 1);
            }
            None => {
                self.came_back(turn, name, owner, Comeback::Guard);
                count(&mut self.counts.guard_refused, 1);
            }
        }
        Ok(held.is_some())
    }

    /// This owner is being told that it holds the lock. A hold that is not ours is known from now on.
    pub(super) fn tell(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) {
        // Only whoever is given the number claims a place's grant.
        if self.is_unclaimed(name, owner, hold) {
            return;
        }
        let ledger = self.ledger(name.db);
        if ledger.is_told(name.key, owner, hold) {
            return;
        }
        match ledger.of(name.key, owner, hold) {
            Some(mut entry) => {
                entry.told = true;
                ledger.set(name.key, owner, hold, entry);
            }
            None => self.get_to_know(turn, name, owner, hold),
        }
    }

    /// Remembers a hold that this server did not grant.
    pub(super) fn get_to_know(
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
            told: true,
            replies_under_way: 0,
            step: 0,
            counted: false,
        };
        let others = self.ledger(name.db).write(name.key, owner, hold, entry);
        self.lost(name, (Reason::Overwritten, Seen::Later), &others, turn.now);
    }
}
