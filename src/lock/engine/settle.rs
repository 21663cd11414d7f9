//! Settling a lock: whatever happened to its key, its waiters are granted what they may have now.

use std::rc::Rc;

use crate::lock::budget::{GRANT, SETTLE, SHARED_GRANT};
use crate::lock::engine::fit::{Fit, Part};
use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::Delivery;
use crate::lock::lock::LockState;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::{Hold, Ms, NameRef, Terms, Ticket, after};

/// The outcome of serving a waiter, or the first ones of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// It is through: it was granted what it waits for, has lost the right to it, or its time was up.
    Through,
    Waits,
    /// It has to wait on, because another owner holds the lock alone, until this time. The queue has
    /// that holder already.
    Held(Ms),
    /// It could be granted, but the server would refuse the write.
    Refused,
}

impl Locks {
    /// Looks at a lock, grants it to the waiters that may have it now, and sets the alarm for the next look.
    /// It is idempotent. A grant of several locks may let waiters move up in the queues of the others, which
    /// are settled too.
    pub(in crate::lock) fn settle(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.settle_one(turn, name);
        self.settle_moved_up(turn);
    }

    /// Settles what this turn has left to settle: the locks in whose queues a waiter has moved up.
    pub(in crate::lock) fn settle_moved_up(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent() {
            let Some(name) = turn.settling.pop() else {
                return;
            };
            self.settle_one(turn, name.borrow());
        }
        // The rest is settled in the next turn. But their holders are looked up now, because the search
        // for deadlocks depends on them.
        for name in std::mem::take(&mut turn.settling) {
            self.settle_next_turn(turn, name.borrow());
        }
    }

    /// The rest of what there is to do for this lock follows in the next turn.
    fn settle_next_turn(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        self.waiting.queues.look_by(name, turn.now.plus(1));
        self.take_stock(turn, name);
    }

    /// Settles one lock, and none of those in whose queues a waiter moves up by that.
    fn settle_one(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        turn.budget.draw(SETTLE);
        self.waiting.note_stall(turn.now);
        // Each round grants the lock to one waiter, or replies to some that hold it already or may not
        // have it. The first round is never put off.
        loop {
            match self.serve_one(turn, name) {
                // None is left that it could be granted to.
                Served::Through if !self.waiting.queues.contains(name) => return,
                Served::Through if turn.budget.is_spent() => break,
                Served::Through => {}
                Served::Held(until) => {
                    return self.write_down(turn, name, false, after(Some(until)));
                }
                Served::Waits => {
                    if self.waiting.queues.contains(name) {
                        self.adopt_orphan(turn, name);
                    }
                    return self.take_stock(turn, name);
                }
                Served::Refused => {
                    self.clock.key_may_have_left(name.key);
                    self.waiting.queues.retry_later(name, turn.now);
                    return self.take_stock(turn, name);
                }
            }
        }
        // There are too many waiters that may have the lock for one turn.
        self.settle_next_turn(turn, name);
    }

    /// Serves one waiter that may have the lock now, if there is one. Remembers the holders of the lock in
    /// its queue, and forgets holds that are over.
    fn serve_one(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Served {
        if !turn.keys.can_open(name) {
            return Served::Refused;
        }
        let look = self.look(turn, name);
        match look.lock {
            LockState::NoLock => Served::Waits,
            LockState::Free => self.serve_first(turn, name),
            LockState::Shared { .. } => {
                let left = match look.is_anew {
                    true => self.serve_sharers(turn, name),
                    false => Served::Waits,
                };
                match self.serve_first(turn, name) {
                    Served::Waits => left,
                    seen => seen,
                }
            }
            LockState::Exclusive { deadline } => {
                match self.waits_of_holders(turn.now, name).first() {
                    Some(&ticket) => self.serve_holder(turn, name, ticket),
                    None => deadline.map_or(Served::Waits, Served::Held),
                }
            }
        }
    }

    /// Serves those that wait for this lock and share it, which others have written. Returns what is left for the next
    /// look, which finds them again: if the server refuses one of them on account of another lock, the next is tried.
    fn serve_sharers(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Served {
        let mut left = Served::Waits;
        for ticket in self.waits_of_holders(turn.now, name) {
            if turn.budget.is_spent() {
                left = Served::Through;
                break;
            }
            if self.serve_holder(turn, name, ticket) == Served::Refused {
                left = Served::Refused;
            }
        }
        if left != Served::Waits
            && let Some(queue) = self.waiting.queues.get_mut(name)
        {
            queue.touch();
        }
        left
    }

    /// Serves the wait of an owner that holds this lock: it is replied to with that, or over if it asks for more, or
    /// waits for other locks too.
    fn serve_holder(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, ticket: Ticket) -> Served {
        // The search begins with this lock: an upgrade is over, whatever else it waits for.
        if let Some(waiter) = self.waiting.waits.get(ticket) {
            let here = waiter.names.iter().position(|one| one.borrow() == name);
            self.waiting.waits.shut_out_by(ticket, here.unwrap_or_default());
        }
        self.serve(turn, ticket, None)
    }

    /// Serves the first waiter of a queue.
    fn serve_first(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Served {
        let Some(ticket) = self.advance_to_first(turn, name) else {
            return Served::Waits;
        };
        match self.serve(turn, ticket, Some(name)) {
            Served::Through => self.passed_on(name).unwrap_or(Served::Through),
            seen => seen,
        }
    }

    /// Returns the first waiter of a queue, after it has concluded those before it that must not be granted
    /// anything any more.
    fn advance_to_first(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Option<Ticket> {
        loop {
            let ticket = self.waiting.queues.get(name)?.first()?;
            if turn.budget.is_spent() {
                return Some(ticket);
            }
            let Some(outcome) = self.waiting.outcome_if_over(ticket, turn.now) else {
                return Some(ticket);
            };
            self.conclude(turn, ticket, outcome);
        }
    }

    /// The same, of the queue of another lock: if one of its waiters was concluded, it is settled next.
    fn advance_elsewhere(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Option<Ticket> {
        let before = self.waiting.queues.get(name).and_then(|queue| queue.first());
        let first = self.advance_to_first(turn, name);
        if first != before {
            turn.settling.push(name.keep());
        }
        first
    }

    /// Grants a waiter all of its locks, if it may have them now. It is known to come first for the lock `first_of`.
    fn serve(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        first_of: Option<NameRef<'_>>,
    ) -> Served {
        if !self.waiting.waits.is_waiting(ticket) {
            return Served::Waits;
        }
        if let Some(outcome) = self.waiting.outcome_if_over(ticket, turn.now) {
            self.conclude(turn, ticket, outcome);
            return Served::Through;
        }
        let Some(waiter) = self.waiting.waits.get(ticket) else {
            return Served::Waits;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let terms = self.waiting.places.terms_of(waiter, &owner, self.limits.claim_time, turn.now);
        let replicas = waiter.replicas;
        let terms = Terms { spare: self.limits.spare(replicas), ..terms };
        // The search begins with the lock that shut it out the last time, which probably still does.
        let last = usize::from(waiter.shut_out_by).min(names.len());
        let (before, from) = names.split_at(last);
        let mut parts = Vec::with_capacity(names.len());
        for (place, name) in (last..).zip(from).chain((0..).zip(before)) {
            turn.budget.draw(1);
            let name = name.borrow();
            self.meet(turn, name);
            // The caller's own slice: the shell knows the open key by its address.
            let known = first_of.filter(|&first| first == name);
            let name = known.unwrap_or(name);
            let in_turn = known.is_some() || self.advance_elsewhere(turn, name) == Some(ticket);
            let found = self.fit(turn, name, &owner, terms.mode, in_turn).ok();
            // Its owner has come to share a lock that it asks for alone: an upgrade does not wait.
            if found.is_some_and(Fit::is_upgrade) {
                self.conclude(turn, ticket, State::NoUpgrade);
                return Served::Through;
            }
            let Some(fit) = found.filter(|fit| !fit.is_shut()) else {
                if !turn.keys.can_open(name) {
                    return Served::Refused;
                }
                self.waiting.waits.shut_out_by(ticket, place);
                return Served::Waits;
            };
            parts.push(Part { name, fit });
        }
        let is_open = |part: &Part<'_>| part.fit == Fit::Open { keeps: None };
        if self.waiting.waits.is_place(ticket) && !parts.iter().all(is_open) {
            // A place ends when its owner comes to hold some of its locks.
            self.conclude(turn, ticket, State::Withdrawn);
            return Served::Through;
        }
        if turn.lacks_replicas(replicas) {
            self.waiting.queues.retry_all_later(&names, turn.now);
            return Served::Waits;
        }
        if !names.iter().all(|name| self.may_write(turn, name.borrow())) {
            return Served::Refused;
        }
        if !self.conclude_if_denied(turn, ticket) {
            self.grant(turn, ticket, &parts, &terms);
        }
        Served::Through
    }

    /// Checks the rights of a waiter once more before it is granted its locks. If its user has lost them,
    /// concludes it as denied and returns true.
    fn conclude_if_denied(&mut self, turn: &mut Turn<'_>, ticket: Ticket) -> bool {
        let Some(waiter) = self.waiting.waits.get(ticket) else {
            return false;
        };
        let Some(denial) = waiter.denial(turn, self.waiting.waits.client_of(ticket)) else {
            return false;
        };
        // No reply is sent to the owner of a place.
        if !self.waiting.waits.is_place(ticket) {
            self.waiting.waits.deny(ticket, denial);
        }
        self.conclude(turn, ticket, State::Denied);
        true
    }

    /// Grants a waiter all of its locks, counts that, and concludes the waiter.
    pub(in crate::lock) fn grant(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        parts: &[Part<'_>],
        terms: &Terms<'_>,
    ) {
        let cost = match terms.mode.hold() {
            Hold::Exclusive => GRANT,
            Hold::Shared => SHARED_GRANT,
        };
        turn.budget.draw(cost.saturating_mul(parts.len()));
        let fence = self.take(turn, parts, terms, Delivery::by(ticket));
        // Locks that its owner holds already are not counted as acquired after a wait.
        let is_new = |part: &&Part<'_>| part.fit == Fit::Open { keeps: None };
        let granted = || parts.iter().filter(is_new);
        count(&mut self.counts.acquired_after_wait, granted().count());
        if let Some(waiter) = self.waiting.waits.get(ticket) {
            let waited = turn.now.micros().saturating_sub(waiter.since.micros());
            self.counts.waits.add(waited);
            for part in granted() {
                self.waiting.waits.listed.classes.count_wait(part.name.key, waited);
            }
        }
        if let Some(waiter) = self.waiting.waits.get(ticket).filter(|waiter| waiter.replicas > 0) {
            self.offers.pending.insert(ticket, waiter.replicas, turn.now, terms.spare);
            return self.conclude(turn, ticket, State::Pending(fence));
        }
        self.conclude(turn, ticket, State::Granted(fence));
        let until = turn.now.plus(terms.ttl);
        self.waiting.begin_claim(ticket, until);
    }

    /// A waiter for this lock, which was free or shared, is through. Returns until when the lock is now held alone,
    /// if it is: nothing else can be served then.
    fn passed_on(&mut self, name: NameRef<'_>) -> Option<Served> {
        self.waiting.queues.get(name)?;
        let held = self.holds.ledger(name.db).want(name.key)?;
        Some(Served::Held(held.alone()?.entry.end.known()?))
    }

    /// Concludes a waiter with this outcome while one of its locks is being settled, and has its other
    /// queues settled next.
    fn conclude(&mut self, turn: &mut Turn<'_>, ticket: Ticket, outcome: State) {
        let Some(waiter) = self.waiting.waits.get(ticket) else {
            return;
        };
        let names = Rc::clone(&waiter.names);
        // What a grant costs is drawn where it is made.
        if !outcome.is_grant() {
            turn.budget.draw(waiter.reply_cost());
        }
        let moved_up = self.outcomes().decide(ticket, outcome);
        if names.len() == 1 {
            return;
        }
        if outcome.is_grant() {
            // What the owner held already may end at another time.
            let queues = (names.iter()).filter(|name| self.waiting.queues.contains(name.borrow()));
            turn.settling.extend(queues.cloned());
        } else {
            turn.settling.extend(moved_up);
        }
    }

    /// Settles a lock, if it has a queue, and then the locks in whose queues a waiter has moved up.
    #[inline]
    pub(in crate::lock) fn settle_queue(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.waiting.queues.is_empty() {
            return;
        }
        if self.waiting.queues.contains(name) {
            self.settle_one(turn, name);
        }
        self.settle_moved_up(turn);
    }
}
