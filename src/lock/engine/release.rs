//! Releasing: a hold ends, and the lock is handed to the next waiter. What its owner waits for is withdrawn.

use crate::lock::engine::locks::Locks;
use crate::lock::engine::outcomes::Outcomes;
use crate::lock::engine::records::Records;
use crate::lock::holds::ledger::Entry;
use crate::lock::keyspace::LockEvent;
use crate::lock::log::entry::LateUse;
use crate::lock::stats::{Counts, count};
use crate::lock::turn::Turn;
use crate::lock::waiting::waits::waiter::State;
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
        self.outcomes().withdraw(turn, &[name], owner, &mut withdrawn);
        self.release_after(turn, name, owner, withdrawn == [true])
    }

    /// Ends this owner's hold, and returns whether there was one that it knew of. Its requests for the lock must have
    /// been withdrawn; `withdrawn` says whether there were any.
    fn release_after(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        withdrawn: bool,
    ) -> Result<bool, NotALock> {
        // A grant that was not delivered is to be given back, unless another request of this owner may still deliver it.
        let may_be_undelivered = !self.offers.returns.is_empty();
        let held = self.holds.open_to_release(turn, name, owner);
        if let Ok(Some(held)) = held {
            let told = self.records(turn, name).release(owner, held, may_be_undelivered);
            self.count_out(name, owner);
            self.settle_queue(turn, name);
            return Ok(told);
        }
        self.settle_queue(turn, name);
        let mut records = self.records(turn, name);
        if may_be_undelivered {
            records.forget_undelivered(owner);
        }
        held?;
        // A release that has withdrawn a request, or is sent twice, is not late, nor is one of an owner that never
        // knew of its grant.
        if !withdrawn && records.record_comeback(owner, LateUse::Release) {
            count(&mut records.counts.release_refused, 1);
        }
        Ok(false)
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
        self.outcomes().withdraw(turn, names, owner, &mut withdrawn);
        // Settled only now, since a waiter that has moved up may have been withdrawn next.
        if withdrawn.contains(&true) {
            self.settle_moved_up(turn);
        }
        for &name in names {
            if self.holds.is_no_lock(turn, name) {
                if !self.offers.returns.is_empty() {
                    self.records(turn, name).forget_undelivered(owner);
                }
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

impl Records<'_, '_> {
    /// Ends this owner's hold, which is in the key, and returns whether the owner knew of it. `is_only_one` says that no
    /// other share is in the key or remembered.
    #[inline]
    fn release(
        &mut self,
        owner: &[u8],
        (hold, is_only_one): (Hold, bool),
        may_be_undelivered: bool,
    ) -> bool {
        let entry = may_be_undelivered.then(|| self.holds.entry(self.name, owner, hold)).flatten();
        let told = entry.is_none_or(|entry| !entry.delivery.is_undelivered());
        self.turn.keys.announce(self.name, LockEvent::Released);
        let ended = match is_only_one {
            true => self.remove_last(owner),
            false => self.remove_hold(owner, hold),
        };
        let Counts { released, undelivered, .. } = &mut *self.counts;
        let counter = if told { released } else { undelivered };
        count(counter, ended.as_ref().is_some_and(Entry::is_counted));
        if told && let Some(ended) = ended {
            let lasted = self.turn.now.ms().saturating_sub(ended.since);
            self.classes.count_released(self.name.key, lasted);
        }
        told
    }

    /// Takes this owner's hold out of the key, and returns what was remembered of it.
    pub(super) fn remove_hold(&mut self, owner: &[u8], hold: Hold) -> Option<Entry> {
        if hold == Hold::Shared {
            self.make_room();
            if self.holds.state(self.turn, self.name).holders() > 1 {
                self.turn.keys.unshare(self.name, owner);
                let ended = self.holds.ledger(self.name.db).remove(self.name, owner);
                return ended.map(|former| former.entry);
            }
        }
        self.remove_last(owner)
    }

    /// Ends the last holds that are in the key, and returns what was remembered of this owner's.
    #[inline]
    fn remove_last(&mut self, owner: &[u8]) -> Option<Entry> {
        self.turn.keys.remove(self.name);
        self.holds.ledger(self.name.db).forget(self.name, owner)
    }

    /// Forgets a grant of this owner that was not delivered and is not in the key any more. If it stayed, it
    /// would be taken for a hold that another client writes in this owner's name later.
    fn forget_undelivered(&mut self, owner: &[u8]) {
        let entry = self.holds.entry(self.name, owner, Hold::Exclusive);
        if entry.is_some_and(|entry| entry.delivery.is_undelivered() && !entry.end.is_missing()) {
            self.holds.ledger(self.name.db).forget(self.name, owner);
        }
    }
}

impl Outcomes<'_> {
    /// RELEASE withdraws all requests of its owner for these locks: those that wait, and those that were granted
    /// and have yet to be replied to. Their clients get nil. Sets `withdrawn` for each lock that had any.
    #[inline]
    fn withdraw(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
        withdrawn: &mut [bool],
    ) {
        if self.waiting.waits.is_empty() {
            return;
        }
        let mut moved_up = Vec::new();
        for ticket in self.waiting.waits.withdrawable(owner) {
            let Some(waiter) = self.waiting.waits.get(ticket) else {
                continue;
            };
            let mut is_for_any = false;
            for (name, any) in names.iter().zip(&mut *withdrawn) {
                if waiter.names.iter().any(|one| one.borrow() == *name) {
                    (*any, is_for_any) = (true, true);
                }
            }
            if is_for_any {
                moved_up.extend(self.decide(ticket, State::Withdrawn));
            }
        }
        // A waiter that has moved up may have been withdrawn next, and its queue have closed.
        moved_up.retain(|name| self.waiting.queues.contains(name.borrow()));
        turn.settling.extend(moved_up);
    }
}
