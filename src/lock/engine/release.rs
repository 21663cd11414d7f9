//! Releasing: a hold ends, and the lock is handed to the next waiter. What its owner waits for is
//! withdrawn.

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
    /// `LOCK.RELEASE` and `LOCK.MRELEASE`: ends this owner's holds of these locks, and returns how many there were that it
    /// knew of.
    pub fn release(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        owner: &[u8],
    ) -> Result<usize, NotALock> {
        if self.holds.may_miss_keys(turn.now) {
            names.iter().for_each(|&name| self.meet(turn, name));
        }
        let mut in_time = match self.waiting.waits.is_empty() {
            true => Vec::new(),
            false => self.outcomes().withdraw(turn, names, owner),
        };
        // If one is no lock, no hold ends. From the last to the first: that is released first, and its key is still open then.
        let alone = match names {
            [name] => Some(name),
            _ => names.iter().rev().find(|&&one| self.holds.is_no_lock(turn, one)),
        };
        if let Some(&name) = alone {
            return self.release_one(turn, name, owner, &in_time).map(usize::from);
        }
        let mut released = 0_usize;
        // While this owner shares one of the locks, a waiter with FAIR may have no room there, and one for several locks
        // would come before it. Otherwise a hold ends only when its lock is settled, so that the next replaces it.
        for &name in names {
            if self.waiting.queues.fair(name).is_some()
                && let Ok(Some(told)) = self.end_hold(turn, name, owner)
            {
                in_time.push(name);
                released = released.saturating_add(told.into());
            }
        }
        for &name in names {
            let is_released = self.release_one(turn, name, owner, &in_time)?;
            released = released.saturating_add(is_released.into());
        }
        Ok(released)
    }

    /// Ends this owner's hold, and returns whether there was one that it knew of. Its requests for the lock must have
    /// been withdrawn; `in_time` are the locks for which there were any, or a hold that has been ended already.
    #[inline(always)]
    fn release_one(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        in_time: &[NameRef<'_>],
    ) -> Result<bool, NotALock> {
        let ended = self.end_hold(turn, name, owner);
        self.settle_queue(turn, name);
        if let Ok(Some(told)) = ended {
            return Ok(told);
        }
        let may_be_undelivered = !self.offers.returns.is_empty();
        let mut records = self.records(turn, name);
        if may_be_undelivered {
            records.forget_undelivered(owner);
        }
        ended?;
        // A release that has withdrawn a request, or is sent twice, is not late, nor is one of an owner that never
        // knew of its grant.
        if !in_time.contains(&name) && records.record_comeback(owner, LateUse::Release) {
            count(&mut records.journal.counts.release_refused, 1);
        }
        Ok(false)
    }

    /// Ends this owner's hold, if there is one, and returns whether the owner knew of it.
    #[inline(always)]
    fn end_hold(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<Option<bool>, NotALock> {
        // A grant that was not delivered is to be given back, unless another request of this owner may still deliver it.
        let may_be_undelivered = !self.offers.returns.is_empty();
        let Some(held) = self.holds.open_to_release(turn, name, owner)? else {
            return Ok(None);
        };
        let told = self.records(turn, name).release(owner, held, may_be_undelivered);
        if held.0 == Hold::Shared {
            self.count_sharer(name, owner, false);
        }
        Ok(Some(told))
    }
}

impl Records<'_, '_> {
    /// Ends this owner's hold, which is in the key, and returns whether the owner knew of it. `is_only_one` says that no
    /// other share is in the key or remembered.
    #[inline(always)]
    fn release(
        &mut self,
        owner: &[u8],
        (hold, is_only_one): (Hold, bool),
        may_be_undelivered: bool,
    ) -> bool {
        let entry = may_be_undelivered.then(|| self.holds.entry(self.name, owner, hold)).flatten();
        let told = entry.is_none_or(|entry| !entry.delivery.is_undelivered());
        let ended = match is_only_one {
            true => self.end_last(owner, LockEvent::Released),
            false => self.end_hold(owner, hold, LockEvent::Released),
        };
        let Counts { released, undelivered, .. } = &mut *self.journal.counts;
        let counter = if told { released } else { undelivered };
        count(counter, ended.as_ref().is_some_and(Entry::is_counted));
        if told && let Some(ended) = ended {
            let lasted = self.turn.now.ms().saturating_sub(ended.since);
            if let Some(class) = self.journal.classes.of(self.name.key) {
                class.hold_times.add(lasted);
            }
        }
        told
    }

    /// Takes this owner's hold out of the key, with this event, and returns what was remembered of it.
    pub(super) fn end_hold(&mut self, owner: &[u8], hold: Hold, event: LockEvent) -> Option<Entry> {
        if hold == Hold::Shared {
            self.make_room();
            if self.holds.state(self.turn, self.name).holders() > 1 {
                self.turn.keys.announce(self.name, event);
                self.turn.keys.unshare(self.name, owner);
                let ended = self.holds.ledger(self.name.db).remove(self.name, owner);
                return ended.map(|former| former.entry);
            }
        }
        self.end_last(owner, event)
    }

    /// Ends the last holds that are in the key, and returns what was remembered of this owner's.
    #[inline(always)]
    fn end_last(&mut self, owner: &[u8], event: LockEvent) -> Option<Entry> {
        self.turn.keys.announce(self.name, event);
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
    /// and have yet to be replied to. Their clients get nil. Returns the locks that had any.
    fn withdraw<'n>(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'n>],
        owner: &[u8],
    ) -> Vec<NameRef<'n>> {
        let (mut withdrawn, mut moved_up) = (Vec::new(), Vec::new());
        for ticket in self.waiting.waits.withdrawable(owner) {
            let Some(waiter) = self.waiting.waits.get(ticket) else {
                continue;
            };
            let before = withdrawn.len();
            let is_for =
                |name: &&NameRef<'_>| waiter.names.iter().any(|one| one.borrow() == **name);
            withdrawn.extend(names.iter().filter(is_for));
            if withdrawn.len() > before {
                moved_up.extend(self.decide(ticket, State::Withdrawn));
            }
        }
        // A waiter that has moved up may have been withdrawn next, and its queue have closed.
        moved_up.retain(|name| self.waiting.queues.contains(name.borrow()));
        turn.settling.extend(moved_up);
        withdrawn
    }
}
