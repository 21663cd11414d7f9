//! Releasing: a hold ends, and the lock is handed to the next waiter.

use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::Entry;
use crate::lock::keyspace::LockEvent;
use crate::lock::log::line::Comeback;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, NameRef, NotALock};

impl Locks {
    /// `LOCK.RELEASE`: ends this owner's hold, and returns whether there was one.
    pub fn release(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<bool, NotALock> {
        let mut withdrawn = [false];
        self.meet(turn, name);
        self.withdraw(turn, &[name], owner, &mut withdrawn);
        self.release_after(turn, name, owner, withdrawn == [true])
    }

    /// Ends this owner's hold, and returns whether there was one that it had been told of. Its requests for
    /// the lock must have been withdrawn; `withdrawn` says whether there were any.
    fn release_after(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        withdrawn: bool,
    ) -> Result<bool, NotALock> {
        let held = match self.holds.open_to_release(turn, name, owner) {
            Ok(Some(held)) => held,
            not_held => {
                self.settle_queue(turn, name);
                self.forget_unheard(name, owner);
                not_held?;
                // A release that has withdrawn a request, or is sent twice, is not late, nor is one of an owner that never
                // knew of its grant.
                if !withdrawn && self.record_comeback(turn, name, owner, Comeback::Release) {
                    count(&mut self.counts.release_refused, 1);
                }
                return Ok(false);
            }
        };
        let (hold, is_only_one) = held;
        let told = self.is_told(name, owner, hold);
        turn.keys.announce(name, LockEvent::Released);
        let ended = if is_only_one {
            self.pass_on(turn, name, owner)
        } else {
            self.end_hold(turn, name, owner, hold)
        };
        let counter = if told { &mut self.counts.released } else { &mut self.counts.undelivered };
        count(counter, ended.as_ref().is_some_and(Entry::is_counted));
        if !self.waiting.waits.listed.classes.are_none()
            && told
            && let Some(ended) = ended
        {
            let lasted = turn.now.ms().saturating_sub(ended.since);
            (self.waiting.waits.listed.classes).count_released(name.key, lasted);
        }
        Ok(told)
    }

    /// Forgets a grant of this owner that was not delivered and is not in the key any more. If it stayed, it
    /// would be taken for a hold that another client writes in this owner's name later.
    fn forget_unheard(&mut self, name: NameRef<'_>, owner: &[u8]) {
        if self.offers.returns.is_empty() {
            return;
        }
        let ledger = self.holds.ledger(name.db);
        let entry = ledger.of(name, owner, Hold::Exclusive);
        if entry.is_some_and(|entry| entry.delivery.is_unheard() && !entry.end.is_missing()) {
            ledger.forget(name, owner);
        }
    }

    /// `LOCK.MRELEASE`: ends this owner's holds of these locks, and returns how many there were.
    pub fn release_all(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
    ) -> Result<usize, NotALock> {
        let mut withdrawn = vec![false; names.len()];
        for &name in names {
            self.meet(turn, name);
        }
        self.withdraw(turn, names, owner, &mut withdrawn);
        // Settled only now, since a waiter that has moved up may have been withdrawn next.
        if withdrawn.contains(&true) {
            self.settle_moved_up(turn);
        }
        for &name in names {
            if self.holds.is_no_lock(turn, name) {
                self.forget_unheard(name, owner);
                return Err(NotALock);
            }
        }
        let mut released = 0_usize;
        for (&name, withdrawn) in names.iter().zip(withdrawn) {
            let is_released = self.release_after(turn, name, owner, withdrawn)?;
            released = released.saturating_add(is_released.into());
        }
        Ok(released)
    }
}
