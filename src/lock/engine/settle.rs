//! Settling a lock: whatever happened to its key, its waiters are granted what they may have now.

use std::rc::Rc;

use crate::lock::budget::{GRANT, SETTLE, SHARED_GRANT};
use crate::lock::engine::fit::{Fit, Part};
use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::News;
use crate::lock::lock::LockState;
use crate::lock::log::line::Reason;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::queue::{Alone, Holders, State};
use crate::lock::words::{Hold, Mode, Ms, Name, NameRef, Terms, Ticket, after};

/// How many waiters can be looked up for one unit of the budget.
const LOOKS: usize = 8;

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

    /// Settles what this turn has left to settle: first the locks in whose queues a waiter has moved up, then
    /// the owners that have just got a share of a lock and wait for it too.
    pub(in crate::lock) fn settle_moved_up(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent() {
            if let Some(name) = turn.settling.next_moved_up() {
                self.settle_one(turn, name.borrow());
            } else if let Some((name, owner)) = turn.settling.next_joined() {
                self.see_to_joined(turn, name, owner);
            } else {
                return;
            }
        }
        // The rest is settled in the next turn. But their holders are looked up now, because the search
        // for deadlocks depends on them.
        let mut left = Vec::new();
        while let Some(name) = turn.settling.next_moved_up() {
            self.take_stock(turn, name.borrow());
            left.push(name);
        }
        while let Some((name, _)) = turn.settling.next_joined() {
            left.push(name);
        }
        for name in left {
            if let Some(queue) = self.waiting.queue(name.borrow()) {
                queue.touch();
            }
            self.waiting.look_by(name.borrow(), turn.now.plus(1));
        }
    }

    /// Serves the other requests of an owner that has just got a share of this lock: they are granted, or over.
    pub(in crate::lock) fn see_to_joined(
        &mut self,
        turn: &mut Turn<'_>,
        name: Name,
        owner: Rc<[u8]>,
    ) {
        let served = self.serve_any_of(turn, name.borrow(), &owner);
        // The next look at the lock must find the owner again.
        if served == Served::Refused
            && let Some(queue) = self.waiting.queue(name.borrow())
        {
            queue.touch();
        }
        match served {
            Served::Waits | Served::Held(_) => {}
            Served::Through => {
                turn.settling.add_moved_up([name.clone()]);
                turn.settling.add_joined(name, owner);
            }
            Served::Refused => self.waiting.retry_later(name.borrow(), turn.now),
        }
    }

    /// Settles one lock, and none of those in whose queues a waiter moves up by that.
    fn settle_one(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        turn.budget.draw(SETTLE);
        // Each round grants the lock to one waiter, or replies to some that hold it already or may not
        // have it. The first round is never put off.
        loop {
            match self.serve_one(turn, name) {
                // None is left that it could be granted to.
                Served::Through if self.waiting.queue_of(name).is_none() => return,
                Served::Through if turn.budget.is_spent() => break,
                Served::Through => {}
                Served::Held(until) => {
                    return self.write_down(turn, name, false, after(Some(until)));
                }
                Served::Waits => {
                    if self.waiting.queue(name).is_some() {
                        self.adopt_orphan(turn, name);
                    }
                    return self.take_stock(turn, name);
                }
                Served::Refused => {
                    self.slot_may_have_left(name.key);
                    self.waiting.retry_later(name, turn.now);
                    return self.take_stock(turn, name);
                }
            }
        }
        // There are too many waiters that may have the lock for one turn: the rest follows in the next.
        self.waiting.look_by(name, turn.now.plus(1));
        self.take_stock(turn, name);
    }

    /// Serves one waiter that may have the lock now, if there is one. Remembers the holders of the lock in
    /// its queue, and forgets holds that are over.
    fn serve_one(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Served {
        if !turn.keys.can_open(name) {
            return Served::Refused;
        }
        let now = turn.now;
        self.meet(turn, name);
        let owner = match self.holds.look(turn, name) {
            LockState::NoLock => {
                self.lose_all(name, Reason::Overwritten, now);
                return Served::Waits;
            }
            LockState::Free => {
                if self.holds.outlasts_hold(turn, name) {
                    self.waiting.set_holders(name, Holders::Free);
                } else {
                    self.forget_expired(turn, name);
                }
                return self.serve_first(turn, name);
            }
            LockState::Shared { over, count, .. } => {
                let alone = self.holds.ledger(name.db).forget_others(name.key, None);
                self.record_lost(name, Reason::Overwritten, &alone, now);
                if over > 0 && self.waiting.queue(name).is_some() && turn.keys.may_write(name) {
                    self.make_room(turn, name);
                }
                self.update_holders(turn, name, count);
                return self.serve_first(turn, name);
            }
            LockState::Exclusive { owner, deadline } => {
                self.set_holder(name, owner, deadline, now);
                let Some(owner) = self.waiting.holder_that_waits(name) else {
                    return deadline.map_or(Served::Waits, Served::Held);
                };
                owner
            }
        };
        self.serve_any_of(turn, name, &owner)
    }

    /// Serves the first waiter of a queue.
    fn serve_first(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Served {
        let Some(ticket) = self.advance_to_first(turn, name) else {
            return Served::Waits;
        };
        // Another request of its owner would be served next.
        let is_its_only_one =
            self.waiting.queue_of(name).is_some_and(|queue| !queue.several().contains(&ticket));
        match self.serve(turn, ticket, Some(name)) {
            Served::Through if is_its_only_one => self.passed_on(name).unwrap_or(Served::Through),
            seen => seen,
        }
    }

    /// Returns the first waiter of a queue, after it has concluded those before it that must not be granted
    /// anything any more.
    fn advance_to_first(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Option<Ticket> {
        loop {
            let ticket = self.waiting.queue_of(name)?.first()?;
            if turn.budget.is_spent() {
                return Some(ticket);
            }
            let Some(outcome) = self.waiting.outcome_if_over(ticket, turn.now) else {
                return Some(ticket);
            };
            turn.budget.draw(self.waiting.reply_cost(ticket));
            self.conclude(turn, ticket, outcome);
        }
    }

    /// Serves the requests of this owner, which holds the lock, as far as the budget goes. If the server refuses
    /// one of them on account of another lock, the next is tried.
    fn serve_any_of(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) -> Served {
        let (mut any, mut through) = (Served::Waits, false);
        for ticket in self.waiting_for(turn, name, owner) {
            let Some(waiter) = self.waiting.waiter(ticket) else {
                continue;
            };
            let wants_alone = waiter.mode == Mode::Exclusive;
            let seen = if wants_alone && self.holds.share_of(turn, name, owner).is_some() {
                self.end_upgrade(turn, ticket)
            } else {
                self.serve(turn, ticket, None)
            };
            match seen {
                Served::Waits | Served::Held(_) => {}
                Served::Refused => any = seen,
                Served::Through => {
                    through = true;
                    if turn.budget.is_spent() {
                        break;
                    }
                }
            }
        }
        if through { Served::Through } else { any }
    }

    /// Returns the requests by which this owner waits for this lock, in order of arrival.
    fn waiting_for(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) -> Vec<Ticket> {
        let requests = self.waiting.requests_of(owner);
        let Some(queue) = self.waiting.queue_of(name) else {
            return Vec::new();
        };
        turn.budget.draw(requests.min(queue.len()) / LOOKS);
        // The shorter of the two lists is searched.
        if requests <= queue.len() {
            let tickets = self.waiting.tickets_of(owner);
            return tickets.filter(|&ticket| queue.contains(ticket)).collect();
        }
        let is_its = |ticket: &Ticket| {
            let waiter = self.waiting.waiter(*ticket);
            waiter.is_some_and(|waiter| *waiter.owner == *owner)
        };
        let mut tickets: Vec<Ticket> = queue.iter().filter(is_its).collect();
        tickets.sort_unstable();
        tickets
    }

    /// Grants a waiter all of its locks, if it may have them now. It is known to come first for the lock `first_of`.
    fn serve(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        first_of: Option<NameRef<'_>>,
    ) -> Served {
        if !self.waiting.is_waiting(ticket) {
            return Served::Waits;
        }
        if let Some(outcome) = self.waiting.outcome_if_over(ticket, turn.now) {
            turn.budget.draw(self.waiting.reply_cost(ticket));
            self.conclude(turn, ticket, outcome);
            return Served::Through;
        }
        let Some(waiter) = self.waiting.waiter(ticket) else {
            return Served::Waits;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let terms = self.waiting.terms_of(waiter, &owner, self.limits.claim_time, turn.now);
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
            let in_turn = known.is_some() || self.advance_to_first(turn, name) == Some(ticket);
            let found = self.fit(turn, name, &owner, terms.mode, in_turn).ok();
            if found.is_some_and(Fit::is_upgrade) {
                return self.end_upgrade(turn, ticket);
            }
            let Some(fit) = found.filter(|fit| !fit.is_shut()) else {
                if !turn.keys.can_open(name) {
                    return Served::Refused;
                }
                if let Some(waiter) = self.waiting.waiter_mut(ticket) {
                    waiter.shut_out_by = u16::try_from(place).unwrap_or_default();
                }
                return Served::Waits;
            };
            parts.push(Part { name, fit });
        }
        let is_open = |part: &Part<'_>| part.fit == Fit::Open { keeps: None };
        if self.waiting.is_place(ticket) && !parts.iter().all(is_open) {
            // A place ends when its owner comes to hold some of its locks, but not before it has heard of that.
            if self.holds_all_unheard(&parts, &owner) {
                return Served::Waits;
            }
            self.conclude(turn, ticket, State::Withdrawn);
            return Served::Through;
        }
        if !names.iter().all(|name| self.may_write(turn, name.borrow())) {
            return Served::Refused;
        }
        if !self.conclude_if_denied(turn, ticket) {
            self.grant(turn, ticket, &parts, &terms);
        }
        Served::Through
    }

    /// Ends a wait whose owner has come to share a lock that it asks for alone: an upgrade does not wait.
    fn end_upgrade(&mut self, turn: &mut Turn<'_>, ticket: Ticket) -> Served {
        if !self.waiting.is_waiting(ticket) {
            return Served::Waits;
        }
        let outcome = self.waiting.outcome_if_over(ticket, turn.now).unwrap_or(State::NoUpgrade);
        turn.budget.draw(self.waiting.reply_cost(ticket));
        self.conclude(turn, ticket, outcome);
        Served::Through
    }

    /// Checks the rights of a waiter once more before it is granted its locks. If its user has lost them,
    /// concludes it as denied and returns true.
    fn conclude_if_denied(&mut self, turn: &mut Turn<'_>, ticket: Ticket) -> bool {
        let Some(waiter) = self.waiting.waiter(ticket) else {
            return false;
        };
        let Some(denial) = waiter.denial(turn, self.waiting.client_of(ticket)) else {
            return false;
        };
        // No reply is sent to the owner of a place.
        if !self.waiting.is_place(ticket) {
            self.waiting.deny(ticket, denial);
        }
        turn.budget.draw(self.waiting.reply_cost(ticket));
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
        let fence = self.take(turn, parts, terms, News::UnderWay);
        // Locks that its owner holds already are not counted as acquired after a wait.
        let is_new = |part: &&Part<'_>| part.fit == Fit::Open { keeps: None };
        let granted = || parts.iter().filter(is_new);
        count(&mut self.counts.acquired_after_wait, granted().count());
        if let Some(waiter) = self.waiting.waiter(ticket) {
            let waited = turn.now.micros().saturating_sub(waiter.since.micros());
            self.counts.waits.add(waited);
            for part in granted() {
                self.waiting.classes_mut().count_wait(part.name.key, waited);
            }
        }
        self.conclude(turn, ticket, State::Granted(fence));
        let until = turn.now.plus(terms.ttl);
        self.waiting.begin_claim(ticket, until);
        // It was written just now, and need not be looked at once more.
        let Some(waiter) = self.waiting.waiter(ticket) else {
            return;
        };
        let (owner, print) = (Rc::clone(&waiter.owner), waiter.print);
        for part in granted().filter(|_| terms.mode == Mode::Exclusive) {
            let alone = Alone { owner: Rc::clone(&owner), print, until: Some(until) };
            self.waiting.set_holders(part.name, Holders::One(alone));
        }
    }

    /// A waiter for this lock, which was free or shared, is through. Returns until when the lock is now held alone,
    /// if it is: nothing else can be served then.
    fn passed_on(&self, name: NameRef<'_>) -> Option<Served> {
        let alone = self.waiting.queue_of(name)?.holders().exclusive()?;
        Some(Served::Held(alone.until?))
    }

    /// Concludes a waiter with this outcome while one of its locks is being settled, and has its other
    /// queues settled next.
    fn conclude(&mut self, turn: &mut Turn<'_>, ticket: Ticket, outcome: State) {
        let Some(waiter) = self.waiting.waiter(ticket) else {
            return;
        };
        let names = Rc::clone(&waiter.names);
        let moved_up = self.decide(ticket, outcome);
        if names.len() == 1 {
            return;
        }
        if matches!(outcome, State::Granted(_)) {
            // In each queue another request of its owner may be granted now, and what the owner held
            // already may end at another time.
            let queues =
                (names.iter()).filter(|name| self.waiting.queue_of(name.borrow()).is_some());
            turn.settling.add_moved_up(queues.cloned());
        } else {
            turn.settling.add_moved_up(moved_up);
        }
    }

    /// Settles a lock, if it has a queue, and then the locks in whose queues a waiter has moved up.
    #[inline]
    pub(in crate::lock) fn settle_queue(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if !self.waiting.has_queues() {
            return;
        }
        if self.waiting.queue(name).is_some() {
            self.settle_one(turn, name);
        }
        self.settle_moved_up(turn);
    }
}
