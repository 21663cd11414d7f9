//! A request that waits: it joins queues, and its outcome is decided.

use std::collections::BTreeSet;

use crate::lock::budget::Budget;
use crate::lock::deadlock::Scene;
use crate::lock::deadlock::found::Deadlock;
use crate::lock::deadlock::steps::TooLong;
use crate::lock::engine::fit::Part;
use crate::lock::engine::locks::Locks;
use crate::lock::fence::FencingClock;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::place::Place;
use crate::lock::waiting::place::end::Ended;
use crate::lock::waiting::queue::{State, Waiter};
use crate::lock::words::{Acquired, Lease, Name, NameRef, Patience, Refusal, Request, Ticket};

/// How many locks are looked at again before a deadlock is returned even if it may be out of date.
const MOST_LOOKS: usize = 64;

impl Locks {
    /// Lets the request join the end of each of its queues, unless it would wait for itself. `instead_of` is the wait
    /// that its owner gives up for it: it is judged as if that were gone.
    pub(in crate::lock) fn enroll(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &[Part<'_>],
        request: &Request<'_>,
        instead_of: Option<Ticket>,
    ) -> Result<Ticket, Refusal> {
        let until = match request.patience {
            Patience::Until(until) => Some(until),
            Patience::Place(lease) => Some(turn.now.plus(lease.length)),
            Patience::Try | Patience::Forever => None,
        };
        if let Some(most) = request.max_queue {
            self.check_length(parts, most, instead_of)?;
        }
        let names: Vec<NameRef<'_>> = parts.iter().map(|part| part.name).collect();
        self.waiting.check_room(&names, request, instead_of, &self.limits)?;
        let place = match request.patience {
            Patience::Place(Lease { length, command, .. }) => {
                Some(Box::new(Place::new(length, turn.keys.asker(command))))
            }
            _ => None,
        };
        let ticket = self.waiting.enroll(request, &names, until, turn.now, place);
        for &name in &names {
            // Only a new queue is looked at: others have been settled in this turn.
            if self.waiting.queue(name).is_some_and(|queue| queue.len() == 1) {
                self.take_stock(turn, name);
            }
        }
        if let Err(refusal) = self.refuse_deadlock(turn, ticket, instead_of) {
            self.give_up(ticket);
            return Err(refusal);
        }
        self.counts.note_waiting(self.waiting.count_waiting());
        Ok(ticket)
    }

    /// Refuses a request that has just come, or a place that has just woken, if it would wait for itself; as if
    /// `without` were gone.
    pub(in crate::lock) fn refuse_deadlock(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        without: Option<Ticket>,
    ) -> Result<(), Refusal> {
        let is_in_the_way = |waiter: &Waiter| {
            let db = waiter.names.first().map_or(0, |name| name.db);
            self.holds.may_be_in_the_way(db, &waiter.owner)
        };
        // Another would have to wait for its owner: for what that holds, or behind it in a queue.
        if self.waiting.is_last(ticket) && !self.waiting.waiter(ticket).is_some_and(is_in_the_way) {
            return Ok(());
        }
        match self.deadlock_now(turn, ticket, without)? {
            None => Ok(()),
            Some(deadlock) => {
                count(&mut self.counts.deadlocks, 1);
                Err(Refusal::Deadlock(deadlock))
            }
        }
    }

    /// Checks that the request would wait behind fewer than `most` others in each of its queues, once its owner
    /// has given up `instead_of`.
    fn check_length(
        &self,
        parts: &[Part<'_>],
        most: u64,
        instead_of: Option<Ticket>,
    ) -> Result<(), Refusal> {
        // The wait that is given up stands in the same queues.
        let given_up = instead_of.is_some_and(|ticket| self.waiting.is_waiting(ticket));
        for &Part { name, fit, .. } in parts {
            // It waits for nothing in the queue of a lock that its owner holds, or could have.
            if !fit.is_shut() {
                continue;
            }
            let before = self.waiting.before_a_new_one(name);
            let before = before.saturating_sub(usize::from(given_up));
            let before = u64::try_from(before).unwrap_or(u64::MAX);
            if before >= most {
                return Err(Refusal::Behind(before));
            }
        }
        Ok(())
    }

    /// Returns the deadlock that this waiter closes, if any. The keys on the way are looked at again, since
    /// other clients may have written them: only those of its own database and slot, because a command
    /// can't read others, and only in so many rounds as [`MOST_LOOKS`] allows.
    fn deadlock_now(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        without: Option<Ticket>,
    ) -> Result<Option<Deadlock>, TooLong> {
        let home = |clock: &FencingClock, name: &Name| (name.db, clock.slot(&name.key));
        let waiter = self.waiting.waiter(ticket);
        let first = waiter.and_then(|waiter| waiter.names.first());
        let own = first.map(|name| home(&self.clock, name));
        let is_home = |clock: &FencingClock, name: &Name| Some(home(clock, name)) == own;
        let (mut seen, mut looks) = (BTreeSet::new(), 0_usize);
        loop {
            let mut steps = self.searches.begin(turn.now);
            let (max_sharers, now) = (self.limits.max_sharers, turn.now);
            let (waiting, holds) = (&self.waiting, &self.holds);
            let scene = Scene { waiting, holds, without, max_sharers, now };
            let found = scene.deadlock_of(ticket, &mut steps);
            self.searches.end(&steps);
            let found = found?;
            let Some(deadlock) = found.as_ref().filter(|_| looks < MOST_LOOKS) else {
                return Ok(found);
            };
            looks = looks.saturating_add(deadlock.links.len());
            let links = deadlock.links.iter().map(|link| &link.name);
            let anew: Vec<Name> = links
                .filter(|name| is_home(&self.clock, name) && seen.insert((*name).clone()))
                .cloned()
                .collect();
            for name in &anew {
                // What others have written may not have been heard of. What has been seen now is acted on later.
                self.waiting.note(name.clone());
                self.take_stock(turn, name.borrow());
                self.waiting.note(name.clone());
            }
            if anew.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Counts a request that does not wait, and returns its outcome.
    pub(in crate::lock) fn count_busy(&mut self) -> Acquired {
        count(&mut self.counts.busy, 1);
        Acquired::Busy
    }

    /// Takes a waiter out of its queues with this outcome, and has its client replied to. Returns the locks
    /// in whose queues another waiter is the first now.
    pub(in crate::lock) fn decide(&mut self, ticket: Ticket, outcome: State) -> Vec<Name> {
        if self.waiting.is_place(ticket) && !matches!(outcome, State::Granted(_)) {
            return match outcome {
                State::TimedOut => self.lapse(ticket),
                State::Withdrawn | State::NoUpgrade => self.end_place(ticket, Ended::ByItsOwner),
                _ => self.end_place(ticket, Ended::Lost),
            };
        }
        let moved_up = match outcome {
            // The caller settles all of its queues, so none has to be returned.
            State::Granted(_) => {
                self.waiting.leave_with_grant(ticket);
                Vec::new()
            }
            _ => self.waiting.leave(ticket),
        };
        if outcome == State::TimedOut {
            count(&mut self.counts.wait_timeouts, 1);
        }
        if self.waiting.decided(ticket, outcome) {
            self.outbox.to_reply.push(self.waiting.client_of(ticket));
        }
        moved_up
    }

    /// Ends the wait of a client that can't be blocked after all, and counts it as busy, like a request that does
    /// not wait.
    pub fn cannot_wait(&mut self, handle: Ticket) {
        self.forget_client(handle);
        count(&mut self.counts.busy, 1);
    }

    /// Removes the wait of a blocked client, without an outcome, unless another request has taken it over.
    pub fn forget_client(&mut self, handle: Ticket) {
        if !self.waiting.forget_replaced(handle)
            && let Some(ticket) = self.waiting.wait_of_client(handle)
        {
            self.give_up(ticket);
        }
    }

    /// Removes a waiter, without an outcome, from its queues and altogether.
    pub(in crate::lock) fn give_up(&mut self, ticket: Ticket) {
        let moved_up = self.waiting.leave(ticket);
        self.waiting.settle_later(moved_up);
        self.waiting.forget(ticket);
    }

    /// Sends waiters away that are marked for it, in order of arrival, as far as the budget goes.
    pub(in crate::lock) fn send_some_away(&mut self, budget: &mut Budget) {
        while !budget.is_spent()
            && self.waiting.has_to_send_away()
            && let Some(ticket) = self.waiting.first_client()
        {
            budget.draw(self.waiting.reply_cost(ticket));
            let moved_up = self.decide(ticket, State::SentAway);
            self.waiting.settle_later(moved_up);
        }
    }
}
