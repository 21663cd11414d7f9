//! Who holds a lock that has a queue, and when to look again.

use crate::lock::deadlock::Holders;
use crate::lock::engine::locks::Locks;
use crate::lock::holds::Holds;
use crate::lock::holds::ledger::Held;
use crate::lock::holds::look::{Look, Wanted};
use crate::lock::lock::LockState;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, Ms, NameRef, Now, Ticket, earlier};

impl Locks {
    /// Looks at a lock, and has its record say who holds it now; see [`Holds::look`].
    pub(in crate::lock) fn look(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Look {
        let (slot, most) = (self.clock.slot(name.key), self.limits.max_sharers);
        let mut is_fair = false;
        let wanted = self.waiting.queues.get_mut(name).map(|queue| {
            is_fair = queue.fair().is_some();
            Wanted { is_stale: queue.take_stale(), most, slot }
        });
        let mut look = self.holds.look(turn, name, wanted);
        self.record_ended(turn, name, std::mem::take(&mut look.lost));
        if is_fair {
            self.check_groups(turn, name, &look);
        }
        look
    }

    /// Looks at a lock that has a queue, and sets the alarm for when that may change by itself.
    pub(in crate::lock) fn take_stock(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.waiting.queues.get_mut(name).is_none() {
            return;
        }
        let look = self.look(turn, name);
        self.write_down(turn, name, look.lock == LockState::NoLock, look.next);
        // The next look must find those that wait for it too.
        if look.is_anew
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
        if queue.len() <= held.len() {
            let holds = |ticket: &Ticket| {
                let waiter = self.waiting.waits.get(*ticket);
                waiter.is_some_and(|waiter| self.holds.includes(held, &waiter.owner, now))
            };
            return queue.iter().filter(holds).collect();
        }
        let waits = held.owners(now).flat_map(|owner| {
            self.waiting.waits.waits_of(owner.bytes(), name.db).collect::<Vec<Ticket>>()
        });
        waits.filter(|&ticket| queue.contains(ticket)).collect()
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

    /// Gives an expiry to a string that has none and that a client asks for as a lock, if `lock.orphan-ttl`
    /// is set: its client may have died between `SETNX` and `EXPIRE`.
    pub(in crate::lock) fn adopt_orphan(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let ttl = self.limits.orphan_ttl;
        if ttl == 0 {
            return;
        }
        let is_endless = self.holds.state(turn, name) == LockState::Exclusive { deadline: None };
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
        Holds::held(self, lock).is_some_and(|held| self.includes(held, owner, now))
    }

    fn each(&self, lock: NameRef<'_>, now: Now, visit: &mut dyn FnMut(&[u8])) {
        let owners = Holds::held(self, lock).into_iter().flat_map(|held: &Held| held.owners(now));
        owners.for_each(|owner| visit(owner.bytes()));
    }
}
