//! Who holds a lock that has a queue, and when to look again.

use crate::lock::deadlock::Holders;
use crate::lock::engine::records::Records;
use crate::lock::engine::settle::Settling;
use crate::lock::holds::Holds;
use crate::lock::holds::ledger::Held;
use crate::lock::holds::look::{Look, Wanted};
use crate::lock::lock::LockState;
use crate::lock::words::{Hold, Ms, NameRef, Now, Ticket, earlier};

impl Settling<'_, '_> {
    /// Looks at the lock, and has its record say who holds it now; see [`Holds::look`].
    pub(super) fn look(&mut self) -> Look {
        let slot = self.locks.clock.slot(self.name.key);
        let most = self.locks.limits.max_sharers;
        let queue = self.locks.waiting.queues.look_at(self.name);
        let is_fair = queue.is_some_and(|(queue, _)| queue.fair().is_some());
        let wanted = queue.map(|(_, is_stale)| Wanted { is_stale, most, slot });
        let mut look = self.locks.holds.look(self.turn, self.name, wanted);
        let lost = std::mem::take(&mut look.lost);
        self.locks.records(self.turn, self.name).record_ended(lost);
        if is_fair {
            self.check_groups(&look);
        }
        look
    }

    /// Looks at the lock, if it has a queue, and sets the alarm for when that may change by itself.
    pub(super) fn refresh_holders(&mut self) {
        if !self.locks.waiting.queues.contains(self.name) {
            return;
        }
        let look = self.look();
        self.schedule_recheck(look.lock == LockState::NoLock, look.next);
        // The next look must find those that wait for it too.
        if look.is_anew && !self.waits_of_holders().is_empty() {
            self.locks.waiting.queues.touch(self.name);
        }
    }

    /// The waits for the lock of owners that hold it.
    pub(super) fn waits_of_holders(&self) -> Vec<Ticket> {
        let (waiting, holds) = (&self.locks.waiting, &self.locks.holds);
        let (Some(queue), Some(held)) = (waiting.queues.get(self.name), holds.held(self.name))
        else {
            return Vec::new();
        };
        let now = self.turn.now;
        // The shorter of the two lists is gone through.
        if queue.len() <= held.len() {
            let holds = |ticket: &Ticket| {
                let waiter = waiting.waits.get(*ticket);
                waiter.is_some_and(|waiter| holds.includes(held, &waiter.owner, now))
            };
            return queue.iter().filter(holds).collect();
        }
        let waits = held.owners(now).flat_map(|owner| {
            waiting.waits.waits_of(&owner, self.name.db).collect::<Vec<Ticket>>()
        });
        waits.filter(|&ticket| queue.contains(ticket)).collect()
    }

    /// Remembers that the lock has been looked at, and sets its alarm: `alarm`, or earlier if there is another reason to
    /// look.
    pub(super) fn schedule_recheck(&mut self, is_no_lock: bool, alarm: Option<Ms>) {
        let now = self.turn.now;
        let alarm = earlier(alarm, self.locks.quarantine(now));
        self.locks.waiting.queues.looked_at(self.name, is_no_lock, alarm, now);
    }
}

impl Records<'_, '_> {
    /// Gives an expiry to a string that has none and that a client asks for as a lock, if `lock.orphan-ttl`
    /// is set: its client may have died between `SETNX` and `EXPIRE`.
    pub(super) fn adopt_orphan(&mut self) {
        let (ttl, endless) = (self.limits.orphan_ttl, LockState::Exclusive { deadline: None });
        if ttl > 0
            && self.holds.state(self.turn, self.name) == endless
            && self.turn.keys.may_write(self.name)
        {
            self.turn.keys.move_deadline(self.name, self.turn.now.plus(ttl));
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
        owners.for_each(|owner| visit(&owner));
    }
}
