//! Releasing: a hold ends, and the lock is handed to the next waiter. What its owner waits for is withdrawn.

use crate::lock::engine::locks::Locks;
use crate::lock::engine::outcomes::Outcomes;
use crate::lock::engine::records::Records;
use crate::lock::holds::ledger::Entry;
use crate::lock::keyspace::LockEvent;
use crate::lock::log::entry::LateUse;
use crate::lock::stats::{Counts, count};
use crate::lock::turn::Turn;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::{Hold, NameRef, NotALock};

/// `LOCK.RELEASE` or `LOCK.MRELEASE` of an owner, and what it may change.
pub struct Release<'l, 'k> {
    locks: &'l mut Locks,
    turn: &'l mut Turn<'k>,
    owner: &'l [u8],
}

impl Locks {
    #[inline]
    pub fn releases<'l, 'k>(
        &'l mut self,
        turn: &'l mut Turn<'k>,
        owner: &'l [u8],
    ) -> Release<'l, 'k> {
        Release { locks: self, turn, owner }
    }
}

impl Release<'_, '_> {
    /// `LOCK.RELEASE`: ends this owner's hold, and returns whether there was one.
    pub fn one(&mut self, name: NameRef<'_>) -> Result<bool, NotALock> {
        let mut withdrawn = [false];
        self.locks.meet(self.turn, name);
        self.locks.outcomes().withdraw(self.turn, &[name], self.owner, &mut withdrawn);
        self.release_after(name, withdrawn == [true])
    }

    /// Ends this owner's hold, and returns whether there was one that it knew of. Its requests for the lock must have
    /// been withdrawn; `in_time` says whether there were any, or a hold that has been ended already.
    fn release_after(&mut self, name: NameRef<'_>, in_time: bool) -> Result<bool, NotALock> {
        let ended = self.end_hold(name);
        self.locks.settle_queue(self.turn, name);
        if let Ok(Some(told)) = ended {
            return Ok(told);
        }
        let may_be_undelivered = !self.locks.offers.returns.is_empty();
        let mut records = self.locks.records(self.turn, name);
        if may_be_undelivered {
            records.forget_undelivered(self.owner);
        }
        ended?;
        // A release that has withdrawn a request, or is sent twice, is not late, nor is one of an owner that never
        // knew of its grant.
        if !in_time && records.record_comeback(self.owner, LateUse::Release) {
            count(&mut records.counts.release_refused, 1);
        }
        Ok(false)
    }

    /// Ends this owner's hold, if there is one, and returns whether the owner knew of it.
    #[inline]
    fn end_hold(&mut self, name: NameRef<'_>) -> Result<Option<bool>, NotALock> {
        // A grant that was not delivered is to be given back, unless another request of this owner may still deliver it.
        let may_be_undelivered = !self.locks.offers.returns.is_empty();
        let Some(held) = self.locks.holds.open_to_release(self.turn, name, self.owner)? else {
            return Ok(None);
        };
        let told =
            self.locks.records(self.turn, name).release(self.owner, held, may_be_undelivered);
        let Waiting { queues, waits, .. } = &mut self.locks.waiting;
        if let Some(fair) = queues.fair_mut(name) {
            fair.count_holder(waits.group_of(self.owner), false);
        }
        Ok(Some(told))
    }

    /// `LOCK.MRELEASE`: ends this owner's holds of these locks, and returns how many there were.
    pub fn all(&mut self, names: &[NameRef<'_>]) -> Result<usize, NotALock> {
        let mut in_time = vec![false; names.len()];
        for &name in names {
            self.locks.meet(self.turn, name);
        }
        self.locks.outcomes().withdraw(self.turn, names, self.owner, &mut in_time);
        // From the last to the first: that is released first, and its key is still open then.
        let mut names_back = names.iter().rev();
        if let Some(&name) = names_back.find(|&&name| self.locks.holds.is_no_lock(self.turn, name))
        {
            return self.release_after(name, true).map(usize::from);
        }
        let mut released = 0_usize;
        // While this owner shares one of the locks, a waiter with FAIR may have no room there, and one for several locks
        // would come before it. Otherwise a hold ends only when its lock is settled, so that the next replaces it.
        for (&name, in_time) in names.iter().zip(&mut in_time) {
            if self.locks.waiting.queues.fair(name).is_some()
                && let Some(told) = self.end_hold(name)?
            {
                *in_time = true;
                released = released.saturating_add(told.into());
            }
        }
        for (&name, in_time) in names.iter().zip(in_time) {
            let is_released = self.release_after(name, in_time)?;
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
