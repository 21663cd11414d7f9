//! What a queue remembers of its lock: its holders, and when to look again.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::{Entry, Former};
use crate::lock::keyspace::Stored;
use crate::lock::lock::LockState;
use crate::lock::log::line::Reason;
use crate::lock::turn::Turn;
use crate::lock::waiting::queue::{Alone, Holders};
use crate::lock::words::{Ms, NameRef, Now, Ticket, after, earlier, is_over};

impl Locks {
    /// Looks at a lock that has a queue, remembers who holds it, and sets the alarm for when that may change
    /// by itself.
    pub(in crate::lock) fn take_stock(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.waiting.queues.get_mut(name).is_none() {
            return;
        }
        let now = turn.now;
        let lock = self.holds.look(turn, name);
        let (is_no_lock, mut alarm) = (lock == LockState::NoLock, lock.next_change());
        let mut waits = Vec::new();
        match lock {
            LockState::Free => self.waiting.set_holders(name, Holders::Free),
            LockState::NoLock => {
                self.waiting.set_holders(name, Holders::Free);
                // It may expire too.
                alarm = after(turn.keys.deadline(name)).filter(|&end| end > now.ms());
            }
            LockState::Exclusive { owner, deadline } => self.set_holder(name, owner, deadline, now),
            LockState::Shared { count, .. } => waits = self.update_holders(turn, name, count),
        }
        self.write_down(turn, name, is_no_lock, alarm);
        // The next look must find them again.
        if !waits.is_empty()
            && let Some(queue) = self.waiting.queues.get_mut(name)
        {
            queue.touch();
        }
    }

    /// Reads the holders of a shared lock that has a queue, unless they are known already. Returns the waits of those
    /// that wait for it too.
    pub(in crate::lock) fn update_holders(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        count: usize,
    ) -> Vec<Ticket> {
        let are_too_many = self.limits.are_too_many(count);
        let Some(queue) = self.waiting.queues.get_mut(name) else {
            return Vec::new();
        };
        let stale = queue.take_stale();
        match queue.holders() {
            _ if are_too_many => {
                self.waiting.set_holders(name, Holders::TooMany(count));
                return Vec::new();
            }
            Holders::Many(_) if !stale => return Vec::new(),
            _ => {}
        }
        let mut shares = BTreeMap::new();
        self.holds.each_sharer(turn, name, &mut |owner, ends| {
            shares.insert(Rc::from(owner), ends.own);
            true
        });
        self.waiting.set_holders(name, Holders::Many(shares));
        self.waiting.queues.get(name).map_or_else(Vec::new, |queue| {
            let mut waits = self.waiting.waits_of_holders(queue, name.db, turn.now);
            waits.retain(|&ticket| queue.contains(ticket));
            waits
        })
    }

    /// Remembers that a lock with a queue has been looked at, and sets its alarm: `alarm`, or earlier if
    /// there is another reason to look.
    pub(in crate::lock) fn write_down(
        &mut self,
        turn: &Turn<'_>,
        name: NameRef<'_>,
        is_no_lock: bool,
        alarm: Option<Ms>,
    ) {
        let alarm = earlier(alarm, self.quarantine(turn.now));
        self.waiting.queues.looked_at(name, is_no_lock, alarm, turn.now);
    }

    /// Remembers this owner's share, which was written or whose end has moved, in the lock's queue.
    pub(in crate::lock) fn update_share(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) {
        if self.waiting.queues.get_mut(name).is_none() {
            return;
        }
        let share = turn.keys.share_of(name, owner);
        let is_first = (self.waiting.queues.get_mut(name))
            .is_some_and(|queue| matches!(queue.holders(), Holders::Free));
        if is_first
            && let Some(share) = share
            && turn.keys.look(name) == (Stored::Shared { count: 1 })
        {
            let shares = BTreeMap::from([(Rc::from(owner), share.deadline)]);
            self.waiting.set_holders(name, Holders::Many(shares));
        } else {
            self.waiting.set_sharer(name, owner, share);
        }
    }

    /// Prepares a write of a share: removes expired shares, or the whole key if its hold is over, and
    /// forgets shares that other clients have removed.
    pub(in crate::lock) fn make_room(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.meet(turn, name);
        self.drop_over(turn, name);
        self.forget_removed(turn, name);
    }

    /// Forgets shares that other clients have removed from the lock, if it has fewer than are remembered.
    pub(in crate::lock) fn forget_removed(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        // After a step of the clock, shares that are not in the key may still have to be written again.
        if !self.holds.is_in_step(turn.now, name) {
            return;
        }
        if let Stored::Shared { count } = turn.keys.look(name) {
            let is_there = &mut |owner: &[u8]| turn.keys.share_of(name, owner).is_some();
            let gone = self.holds.ledger(name.db).take_missing_shares(name.key, count, is_there);
            self.record_lost(name, Reason::Overwritten, &gone, turn.now);
        }
    }

    fn drop_over(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let now = turn.now;
        let stored = turn.keys.look(name);
        let (is_nothing, is_one) =
            (stored == Stored::Nothing, matches!(stored, Stored::Exclusive { .. }));
        // The hold of one owner, which is over: a share can't be written beside it.
        if is_one && self.holds.look(turn, name) == LockState::Free {
            turn.keys.remove(name);
            return self.forget_expired(turn, name);
        }
        // After a step of the clock a lock may be held without a key, or longer than its key says.
        if self.holds.is_in_step(now, name) {
            // What is remembered of earlier holders must not count for later ones.
            if is_nothing {
                return self.forget_expired(turn, name);
            }
            if is_over(turn.keys.deadline(name), now) {
                turn.keys.remove(name);
                return self.forget_expired(turn, name);
            }
        }
        let (over, any_lasts) = self.holds.shares_over(turn, name);
        if over.is_empty() {
            return;
        }
        if !any_lasts {
            turn.keys.remove(name);
            return self.forget_expired(turn, name);
        }
        turn.keys.unshare_over(name, &over);
        let expired: Vec<Former> = (over.iter())
            .filter_map(|owner| {
                self.waiting.set_sharer(name, owner, None);
                self.holds.ledger(name.db).take_share(name.key, owner)
            })
            .collect();
        self.record_expired(turn, name, &expired);
    }

    /// Forgets the share of this owner, which has been removed from the key. Returns what was forgotten.
    pub(in crate::lock) fn drop_share(&mut self, name: NameRef<'_>, owner: &[u8]) -> Option<Entry> {
        self.waiting.set_sharer(name, owner, None);
        self.holds.ledger(name.db).forget_share(name.key, owner)
    }

    /// Gives an expiry to a string that has none and that a client asks for as a lock, if `lock.orphan-ttl`
    /// is set: its client may have died between `SETNX` and `EXPIRE`.
    pub(in crate::lock) fn adopt_orphan(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let ttl = self.limits.orphan_ttl;
        if ttl == 0 {
            return;
        }
        let is_endless =
            matches!(self.holds.look(turn, name), LockState::Exclusive { deadline: None, .. });
        if is_endless && turn.keys.may_write(name) {
            turn.keys.move_deadline(name, turn.now.plus(ttl));
        }
    }

    /// Remembers that this owner holds the lock alone, until `deadline`. If it is a new holder, the holds of
    /// all other owners are forgotten as overwritten.
    pub(in crate::lock) fn set_holder(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        deadline: Option<Ms>,
        now: Now,
    ) {
        if self.waiting.set_end_of_holder(name, owner, deadline) {
            return;
        }
        if self.waiting.queues.get_mut(name).is_some() {
            let print = self.waiting.waits.print_of(owner);
            let alone = Alone { owner: Rc::from(owner), print, until: deadline };
            self.waiting.set_holders(name, Holders::One(alone));
        }
        let others = self.holds.ledger(name.db).forget_others(name.key, Some(owner));
        self.record_lost(name, Reason::Overwritten, &others, now);
    }
}
