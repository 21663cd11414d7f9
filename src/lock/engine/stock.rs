//! Who holds a lock that has a queue: the record is brought into accord with the key, with what other clients have
//! written too, because the search for deadlocks goes by the records. In a cluster a command can't read keys of other
//! slots.

use crate::lock::deadlock::Holders;
use crate::lock::engine::locks::Locks;
use crate::lock::holds::Holds;
use crate::lock::holds::ledger::held::Held;
use crate::lock::holds::ledger::{Former, Token};
use crate::lock::keyspace::Stored;
use crate::lock::lock::LockState;
use crate::lock::log::line::Reason;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, Ms, NameRef, Now, Ticket, after, earlier, is_over};

/// Who holds a lock that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lock) enum Seen {
    NoLock,
    Free,
    /// One owner alone, until then.
    Alone(Option<Ms>),
    /// Owners that share it. Were they read anew? Then some of them may wait for it too.
    Shared {
        anew: bool,
    },
}

impl Locks {
    /// Looks at a lock, and has its record say who holds it now; if it has a queue, also of owners that this server knows
    /// nothing of. Forgets what is over or was overwritten. Returns when that may change by itself, too.
    pub(in crate::lock) fn look(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
    ) -> (Seen, Option<Ms>) {
        let now = turn.now;
        // Of a key that can't be opened nothing is known.
        if !turn.keys.can_open(name) {
            return (Seen::NoLock, None);
        }
        let lock = self.holds.look(turn, name);
        let next = lock.next_change();
        let (owner, deadline) = match lock {
            LockState::NoLock => {
                self.lose_all(name, Reason::Overwritten, now);
                // It may expire too.
                let next = after(turn.keys.deadline(name)).filter(|&end| end > now.ms());
                return (Seen::NoLock, next);
            }
            LockState::Free => {
                if !self.holds.outlasts_hold(turn, name) {
                    self.forget_expired(turn, name);
                }
                return (Seen::Free, None);
            }
            LockState::Shared { count, over, .. } => {
                let alone = self.holds.ledger(name.db).forget_others(name.key, None);
                self.record_lost(name, Reason::Overwritten, &alone, now);
                if over > 0
                    && self.waiting.queues.get_mut(name).is_some()
                    && turn.keys.may_write(name)
                {
                    self.make_room(turn, name);
                }
                let anew = self.look_at_sharers(turn, name, count, over);
                return (Seen::Shared { anew }, next);
            }
            LockState::Exclusive { owner, deadline } => (Token::from(owner), deadline),
        };
        let (owner, slot) = (owner.bytes(), self.clock.slot(name.key));
        let is_wanted = self.waiting.queues.get(name).is_some();
        let ledger = self.holds.ledger(name.db);
        let others = match is_wanted {
            true => ledger.see(name.key, (owner, Hold::Exclusive), deadline, slot, now),
            false => ledger.forget_others(name.key, Some(owner)),
        };
        if is_wanted {
            ledger.want(name.key);
        }
        self.record_lost(name, Reason::Overwritten, &others, now);
        (Seen::Alone(deadline), next)
    }

    /// Reads the sharers of a lock that has a queue, unless they are known already. Returns whether they were read.
    fn look_at_sharers(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        count: usize,
        over: usize,
    ) -> bool {
        let Some(queue) = self.waiting.queues.get_mut(name) else {
            return false;
        };
        let is_stale = queue.take_stale();
        self.holds.ledger(name.db).want(name.key);
        // They are not listed: the search for deadlocks knows those alone that were granted here.
        if self.limits.are_too_many(count) {
            return false;
        }
        let known = self.holds.ledger(name.db).count_shares(name.key);
        let anew = is_stale || (known != count && known != count.saturating_add(over));
        if anew {
            let mut sharers = Vec::with_capacity(count);
            self.holds.each_sharer(turn, name, &mut |owner, ends| {
                sharers.push((Token::from(owner), ends.own));
                true
            });
            let slot = self.clock.slot(name.key);
            let ledger = self.holds.ledger(name.db);
            for (owner, until) in sharers {
                ledger.see(name.key, (owner.bytes(), Hold::Shared), until, slot, turn.now);
            }
            ledger.want(name.key);
            self.forget_removed(turn, name);
        }
        anew
    }

    /// Looks at a lock that has a queue, and sets the alarm for when that may change by itself.
    pub(in crate::lock) fn take_stock(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.waiting.queues.get_mut(name).is_none() {
            return;
        }
        let (seen, alarm) = self.look(turn, name);
        self.write_down(turn, name, seen == Seen::NoLock, alarm);
        // The next look must find those that wait for it too.
        if seen == (Seen::Shared { anew: true })
            && !self.waits_of_holders(turn.now, name).is_empty()
            && let Some(queue) = self.waiting.queues.get_mut(name)
        {
            queue.touch();
        }
    }

    /// The waits for this lock of owners that hold it.
    pub(in crate::lock) fn waits_of_holders(&self, now: Now, name: NameRef<'_>) -> Vec<Ticket> {
        let (Some(queue), Some(held)) = (self.waiting.queues.get(name), self.holds.held(name))
        else {
            return Vec::new();
        };
        // The shorter of the two lists is gone through.
        if held.len() <= queue.len() {
            let owners = held.owners(now);
            let waits = owners.flat_map(|owner| {
                self.waiting.waits.waits_of(owner.bytes(), name.db).collect::<Vec<Ticket>>()
            });
            return waits.filter(|&ticket| queue.contains(ticket)).collect();
        }
        let holds = |ticket: &Ticket| {
            let waiter = self.waiting.waits.get(*ticket);
            waiter.is_some_and(|waiter| self.holds.include(name, &waiter.owner, now))
        };
        queue.iter().filter(holds).collect()
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
        let ledger = self.holds.ledger(name.db);
        let expired: Vec<Former> =
            over.iter().filter_map(|owner| ledger.remove(name.key, owner)).collect();
        self.record_expired(turn, name, &expired);
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
}

impl Holders for Holds {
    fn held(&self, lock: NameRef<'_>) -> Option<(Hold, usize)> {
        Holds::held(self, lock).map(|held| (held.hold(), held.len()))
    }

    fn include(&self, lock: NameRef<'_>, owner: &[u8], now: Now) -> bool {
        Holds::include(self, lock, owner, now)
    }

    fn each(&self, lock: NameRef<'_>, now: Now, visit: &mut dyn FnMut(&[u8])) {
        let owners = Holds::held(self, lock).into_iter().flat_map(|held: &Held| held.owners(now));
        owners.for_each(|owner| visit(owner.bytes()));
    }
}
