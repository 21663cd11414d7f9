//! Settling a lock: whatever happened to its key, its waiters are granted what they may have now.

use std::rc::Rc;

use crate::lock::budget::{GRANT, SETTLE, SHARED_GRANT};
use crate::lock::engine::fit::Part;
use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::{Delivery, Held};
use crate::lock::lock::LockState;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::{Hold, Ms, Name, NameRef, Now, Terms, Ticket, after};

/// The outcome of serving a waiter, or the first ones of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// Its wait is over: it was granted what it waits for, has lost the right to it, or its time was up.
    Done,
    Blocked,
    /// It has to wait on, because another owner holds the lock alone, until this time. The queue has
    /// that holder already.
    Held(Ms),
    /// It could be granted, but the server would refuse the write.
    Refused,
}

/// A lock that is being settled. Whatever it takes to grant it to a waiter may be changed by that.
pub(super) struct Settling<'s, 'k> {
    pub(super) locks: &'s mut Locks,
    pub(super) turn: &'s mut Turn<'k>,
    pub(super) name: NameRef<'s>,
}

impl Locks {
    /// Settles a lock, and then the locks in whose queues a waiter has moved up by that.
    pub(super) fn settle(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.settling(turn, name).settle();
        self.settle_moved_up(turn);
    }

    /// The same, if the lock has a queue. But nothing is left to settle while one owner holds it alone, as it did when it
    /// was last looked at.
    #[inline(always)]
    pub(super) fn settle_queue(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let Waiting { queues, .. } = &self.waiting;
        if queues.is_empty() {
            return;
        }
        let alone = self.holds.held(name).and_then(Held::alone);
        let until = alone.and_then(|alone| alone.entry.end.known());
        let is_settled = until.is_some_and(|until| queues.is_settled(name, until, turn.now))
            && !self.holds.may_miss_keys(turn.now);
        if !is_settled && queues.contains(name) {
            self.settling(turn, name).settle();
        }
        self.settle_moved_up(turn);
    }

    /// Settles what this turn has left to settle: the locks in whose queues a waiter has moved up.
    pub(super) fn settle_moved_up(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent() {
            let Some(name) = turn.settling.pop() else {
                return;
            };
            self.settling(turn, name.borrow()).settle();
        }
        // The rest is settled in the next turn. But their holders are looked up now, because the search
        // for deadlocks depends on them.
        for name in std::mem::take(&mut turn.settling) {
            self.settling(turn, name.borrow()).settle_next_turn();
        }
    }

    #[inline]
    pub(super) fn settling<'s, 'k>(
        &'s mut self,
        turn: &'s mut Turn<'k>,
        name: NameRef<'s>,
    ) -> Settling<'s, 'k> {
        Settling { locks: self, turn, name }
    }
}

impl Settling<'_, '_> {
    /// Looks at the lock, grants it to the waiters that may have it now, and sets the alarm for the next look. It is
    /// idempotent. A grant of several locks may let waiters move up in the queues of the others.
    fn settle(&mut self) {
        self.turn.budget.draw(SETTLE);
        self.locks.waiting.note_stall(self.turn.now);
        // Each round grants the lock to one waiter, or replies to some that hold it already or may not
        // have it. The first round is never put off.
        loop {
            match self.serve_one() {
                // None is left that it could be granted to.
                Served::Done if !self.locks.waiting.queues.contains(self.name) => return,
                // There are too many waiters that may have the lock for one turn.
                Served::Done if self.turn.budget.is_spent() => return self.settle_next_turn(),
                Served::Done => {}
                Served::Held(until) => return self.schedule_recheck(false, after(Some(until))),
                Served::Blocked => {
                    if self.locks.waiting.queues.contains(self.name) {
                        self.locks.records(self.turn, self.name).adopt_orphan();
                    }
                    return self.refresh_holders();
                }
                Served::Refused => {
                    self.locks.clock.key_may_have_left(self.name.key);
                    self.locks.waiting.queues.retry_later(self.name, self.turn.now);
                    return self.refresh_holders();
                }
            }
        }
    }

    /// The rest of what there is to do for this lock follows in the next turn.
    fn settle_next_turn(&mut self) {
        self.locks.waiting.queues.look_by(self.name, self.turn.now.plus(1));
        self.refresh_holders();
    }

    /// Serves one waiter that may have the lock now, if there is one. Remembers the holders of the lock in
    /// its queue, and forgets holds that are over.
    fn serve_one(&mut self) -> Served {
        if !self.turn.keys.can_open(self.name) {
            return Served::Refused;
        }
        let look = self.look();
        let left = if look.is_anew { self.serve_holders() } else { Served::Blocked };
        match look.lock {
            LockState::NoLock => Served::Blocked,
            LockState::Exclusive { deadline } if left == Served::Blocked => {
                deadline.map_or(Served::Blocked, Served::Held)
            }
            LockState::Exclusive { .. } => left,
            LockState::Free | LockState::Shared { .. } => {
                let Some(ticket) = self.advance_to_first() else {
                    return left;
                };
                // Those that were served may have written the key.
                let is_known = !look.is_anew;
                let lock =
                    if is_known { look.lock } else { self.locks.holds.state(self.turn, self.name) };
                match self.serve(ticket, Some(lock)) {
                    Served::Blocked => left,
                    // If the lock is held alone now, and others wait, nothing else can be served.
                    Served::Done => self.held_alone_until().map_or(Served::Done, Served::Held),
                    served => served,
                }
            }
        }
    }

    /// Until when one owner holds this lock alone, if that is so and others wait for it.
    fn held_alone_until(&mut self) -> Option<Ms> {
        self.locks.waiting.queues.get(self.name)?;
        let held = self.locks.holds.ledger(self.name.db).want(self.name)?;
        held.alone()?.entry.end.known()
    }

    /// Serves those that wait for this lock and hold it, which others have written: each is replied to with that, or over
    /// if it asks for more, or waits for other locks too. Returns what is left for the next look, which finds them again:
    /// if the server refuses one of them on account of another lock, the next is tried.
    fn serve_holders(&mut self) -> Served {
        let mut left = Served::Blocked;
        for ticket in self.waits_of_holders() {
            if self.turn.budget.is_spent() {
                left = Served::Done;
                break;
            }
            // The search begins with this lock: an upgrade is over, whatever else it waits for.
            if let Some(waiter) = self.locks.waiting.waits.get(ticket) {
                let here = waiter.names.iter().position(|one| one.borrow() == self.name);
                self.locks.waiting.waits.shut_out_by(ticket, here.unwrap_or_default());
            }
            if self.serve(ticket, None) == Served::Refused {
                left = Served::Refused;
            }
        }
        if left != Served::Blocked {
            self.locks.waiting.queues.touch(self.name);
        }
        left
    }

    /// Returns the first waiter of the queue, after it has concluded those before it that must not be granted
    /// anything any more.
    fn advance_to_first(&mut self) -> Option<Ticket> {
        // With FAIR, one that is over may be in the way of others without being the first.
        if self.locks.waiting.queues.fair(self.name).is_some() {
            self.locks.outcomes().end_overdue(self.turn);
        }
        loop {
            let ticket = self.locks.waiting.queues.get(self.name)?.first()?;
            if self.turn.budget.is_spent() {
                return Some(ticket);
            }
            let Some(outcome) = self.locks.waiting.outcome_if_over(ticket, self.turn.now) else {
                return Some(ticket);
            };
            self.conclude(ticket, outcome);
        }
    }

    /// Is this the first waiter for another lock? If one before it was concluded by that, that lock is settled next.
    fn comes_first_for(&mut self, other: NameRef<'_>, ticket: Ticket) -> bool {
        // Which of those with FAIR have room there may have changed unseen.
        if self.locks.waiting.queues.fair(other).is_some() {
            self.locks.settling(self.turn, other).refresh_holders();
        }
        let before = self.locks.waiting.queues.get(other).and_then(|queue| queue.first());
        let first = self.locks.settling(self.turn, other).advance_to_first();
        if first != before {
            self.turn.settling.push(other.keep());
        }
        first == Some(ticket)
    }

    /// Grants a waiter all of its locks, if it may have them now. If it comes first for this one, which no owner holds
    /// alone, `here` is what was found of it.
    fn serve(&mut self, ticket: Ticket, here: Option<LockState>) -> Served {
        let waiter = self.locks.waiting.waits.get(ticket);
        let Some(waiter) = waiter.filter(|waiter| waiter.state == State::Waiting) else {
            return Served::Blocked;
        };
        if let Some(outcome) = self.locks.waiting.outcome_if_over(ticket, self.turn.now) {
            self.conclude(ticket, outcome);
            return Served::Done;
        }
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let (places, limits) = (&self.locks.waiting.places, &self.locks.limits);
        let (replicas, since, is_place) = (waiter.replicas, waiter.since, waiter.place().is_some());
        let terms = places.terms_of(waiter, &owner, limits, self.turn.now);
        // The search begins with the lock that shut it out the last time, which probably still does.
        let last = usize::from(waiter.shut_out_by).min(names.len());
        let (before, from) = names.split_at(last);
        let mut parts = Vec::with_capacity(names.len());
        for (place, name) in (last..).zip(from).chain((0..).zip(before)) {
            self.turn.budget.draw(1);
            let name = name.borrow();
            let (opened, in_turn) = match here.filter(|_| name == self.name) {
                Some(lock) => (self.locks.holds.opened(self.turn, name, lock, &owner), true),
                None => {
                    self.locks.meet(self.turn, name);
                    let in_turn = self.comes_first_for(name, ticket);
                    (self.locks.holds.open(self.turn, name, &owner), in_turn)
                }
            };
            let found = self.locks.fit((name, opened), (terms.mode, in_turn), self.turn.now).ok();
            // Its owner has come to share a lock that it asks for alone: an upgrade does not wait.
            if found.as_ref().is_some_and(Part::is_upgrade) {
                self.conclude(ticket, State::NoUpgrade);
                return Served::Done;
            }
            let Some(part) = found.filter(|part| !part.is_shut()) else {
                if !self.turn.keys.can_open(name) {
                    return Served::Refused;
                }
                self.locks.waiting.waits.shut_out_by(ticket, place);
                return Served::Blocked;
            };
            parts.push(part);
        }
        if is_place && !parts.iter().all(Part::is_new) {
            // A place ends when its owner comes to hold some of its locks.
            self.conclude(ticket, State::Withdrawn);
            return Served::Done;
        }
        if self.turn.lacks_replicas(replicas) {
            let (queues, now) = (&mut self.locks.waiting.queues, self.turn.now);
            names.iter().for_each(|name| queues.retry_later(name.borrow(), now));
            return Served::Blocked;
        }
        if !names.iter().all(|name| self.locks.records(self.turn, name.borrow()).may_write()) {
            return Served::Refused;
        }
        // Its user may have lost the right to them meanwhile.
        let waits = &mut self.locks.waiting.waits;
        match waits.get(ticket).and_then(|one| one.denial(self.turn)) {
            Some(denial) => {
                waits.deny(ticket, denial);
                self.conclude(ticket, State::Denied);
            }
            None => self.grant(ticket, &names, parts, &terms, (replicas, since)),
        }
        Served::Done
    }

    /// Grants a waiter, which has waited since then, all of its locks, and counts that; as pending, if so many replicas
    /// have to acknowledge it.
    fn grant(
        &mut self,
        ticket: Ticket,
        names: &[Name],
        parts: Vec<Part<'_>>,
        terms: &Terms<'_>,
        (replicas, since): (u8, Now),
    ) {
        let cost = match terms.mode.hold() {
            Hold::Exclusive => GRANT,
            Hold::Shared => SHARED_GRANT,
        };
        self.turn.budget.draw(cost.saturating_mul(parts.len()));
        let (now, waited) = (self.turn.now, self.turn.now.micros().saturating_sub(since.micros()));
        let Locks { waiting, counts, .. } = &mut *self.locks;
        counts.waits.add(waited);
        // Locks that its owner holds already are not counted as acquired after a wait.
        for part in parts.iter().filter(|part| part.is_new()) {
            count(&mut counts.acquired_after_wait, 1);
            if let Some(class) = waiting.classes.of(part.name.key) {
                class.count_wait(waited);
            }
        }
        let fence = self.locks.take(self.turn, parts, terms, Delivery::by(ticket));
        if terms.spare > 0 {
            self.locks.outcomes().decide(ticket, State::Pending(fence));
            self.locks.waiting.pending.insert(ticket, replicas, now, terms.spare);
        } else {
            self.locks.outcomes().decide(ticket, State::Granted(fence));
            self.locks.waiting.begin_claim(ticket, 0, now.plus(terms.ttl));
        }
        // In the queues of its other locks another may come first now, and what its owner held already may end at another
        // time.
        if names.len() > 1 {
            let queues = &self.locks.waiting.queues;
            let queued = names.iter().filter(|name| queues.contains(name.borrow()));
            self.turn.settling.extend(queued.cloned());
        }
    }

    /// Concludes a waiter that is granted nothing with this outcome, and has its other queues settled next.
    fn conclude(&mut self, ticket: Ticket, outcome: State) {
        let Some(waiter) = self.locks.waiting.waits.get(ticket) else {
            return;
        };
        let is_alone = waiter.names.len() == 1;
        self.turn.budget.draw(waiter.reply_cost());
        let moved_up = self.locks.outcomes().decide(ticket, outcome);
        if !is_alone {
            self.turn.settling.extend(moved_up);
        }
    }
}
