//! How waits end: their outcomes, and what becomes of grants that no client has heard of. No key is touched here.

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::lock::budget::Budget;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::outbox::Outbox;
use crate::lock::fence::FencingClock;
use crate::lock::holds::ledger::Delivery;
use crate::lock::holds::{Holds, LockAndOwner};
use crate::lock::stats::{Counts, count};
use crate::lock::turn::Turn;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::waits::waiter::{State, Tell, Waiter};
use crate::lock::words::{Ms, Name, Ticket};

/// What it takes to end waits, and what the server says of clients.
pub struct Outcomes<'l> {
    pub(super) waiting: &'l mut Waiting,
    pub(super) holds: &'l mut Holds,
    pub(super) counts: &'l mut Counts,
    pub(super) clock: &'l mut FencingClock,
    pub(super) outbox: &'l mut Outbox,
    pub(super) offers: &'l mut Offers,
}

/// Grants that clients may not have heard of.
#[derive(Debug, Default)]
pub struct Offers {
    /// Holds that may have to be given back, by when to look at each.
    pub returns: BTreeSet<(Ms, LockAndOwner)>,
    /// Clients whose connections have closed, and whose tied holds have still to be ended.
    pub closed: BTreeSet<u64>,
    /// Waiters that have ended as if their grants had been delivered, until it is known whether their connections
    /// outlive the turn of the server's loop.
    pub unconfirmed: Vec<(Ticket, Box<Waiter>)>,
    /// Waiters whose grants were replied in this turn of the server's loop, and that have yet to end.
    pub replied: Vec<Ticket>,
}

impl Offers {
    /// Is there any of which it is known in the next turn of the server's loop whether its client has it?
    pub fn are_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty() || !self.replied.is_empty()
    }

    /// A waiter or place that was granted its locks has ended, and its owner has heard of that or not. Holds that the
    /// owner does not know of are given back.
    pub fn end(&mut self, holds: &mut Holds, ticket: Ticket, waiter: &Waiter, heard: bool) {
        let delivery = Delivery::at_the_end(heard, waiter.waits_for_replicas());
        for name in &*waiter.names {
            let ledger = holds.ledger(name.db);
            if ledger.offer_ended(name.borrow(), &waiter.owner, ticket, delivery) {
                self.returns.insert((0, (name.clone(), Rc::clone(&waiter.owner))));
            }
        }
    }
}

impl Locks {
    pub fn outcomes(&mut self) -> Outcomes<'_> {
        let Self { waiting, holds, counts, clock, outbox, offers, .. } = self;
        Outcomes { waiting, holds, counts, clock, outbox, offers }
    }
}

impl Outcomes<'_> {
    /// Ends a wait with this outcome, and has its client replied to; a place is over, unless it is granted. What it was
    /// granted before, and its owner does not know of, is given back. Returns the locks in whose queues another waiter
    /// is the first now.
    pub fn decide(&mut self, ticket: Ticket, outcome: State) -> Vec<Name> {
        let Some(waiter) = self.waiting.waits.get(ticket) else {
            return Vec::new();
        };
        let was_granted = waiter.is_granted();
        if (was_granted || self.waiting.pending.remove(ticket)) && waiter.state.is_grant() {
            self.offers.end(self.holds, ticket, waiter, false);
        }
        match (&waiter.tell, outcome) {
            (Tell::Place(_), State::Granted(_)) | (_, State::Pending(_)) => {
                self.waiting.decide(ticket, outcome)
            }
            (Tell::Place(place), _) => {
                if outcome == State::TimedOut {
                    count(&mut self.counts.places_lapsed, 1);
                }
                // It is not lost if its owner has ended it.
                if !matches!(outcome, State::Withdrawn | State::NoUpgrade) {
                    self.waiting.places.notify_lost(place);
                }
                self.forget(ticket)
            }
            (&Tell::Client { handle, .. }, _) => {
                if outcome == State::TimedOut {
                    count(&mut self.counts.wait_timeouts, 1);
                }
                if !was_granted {
                    self.outbox.to_reply.push_back(handle);
                }
                self.waiting.decide(ticket, outcome)
            }
        }
    }

    /// The same, outside of what settles locks: those are settled in the next tick.
    pub fn end_wait(&mut self, ticket: Ticket, outcome: State) {
        let moved_up = self.decide(ticket, outcome);
        self.waiting.queues.settle_later(moved_up);
    }

    /// Removes a waiter, without an outcome, from its queues and altogether.
    pub fn give_up(&mut self, ticket: Ticket) {
        let moved_up = self.forget(ticket);
        self.waiting.queues.settle_later(moved_up);
    }

    /// The same. Returns the locks in whose queues another waiter is the first now.
    fn forget(&mut self, ticket: Ticket) -> Vec<Name> {
        let forgotten = self.waiting.forget(ticket);
        forgotten.map_or_else(Vec::new, |(_, moved_up)| moved_up)
    }

    /// This wait is given up for another request of its owner, which stands at the end of the same queues. Those behind
    /// it are served in the next tick: the new request's client has yet to be blocked.
    pub fn give_way(&mut self, own: Ticket) {
        let replaced = self.waiting.waits.replace_client(own);
        self.outbox.to_reply.extend(replaced);
        self.give_up(own);
    }

    /// Ends the waits whose time is up.
    pub fn end_overdue(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent()
            && let Some((until, ticket)) = self.waiting.waits.lists().times_up.first()
            && until <= turn.now.ms()
        {
            turn.budget.draw(self.waiting.waits.reply_cost(ticket));
            match self.waiting.waits.is_place(ticket) {
                true => self.end_or_extend_lease(turn, ticket),
                false => self.end_wait(ticket, State::TimedOut),
            }
        }
    }

    /// Sends waiters away that are marked for it, in order of arrival, as far as the budget goes.
    pub fn send_some_away(&mut self, budget: &mut Budget) {
        while !budget.is_spent()
            && let Some(ticket) = self.waiting.waits.next_to_send_away()
        {
            budget.draw(self.waiting.waits.reply_cost(ticket));
            self.end_wait(ticket, State::SentAway);
        }
    }

    /// Ends a lease whose time has come, or extends it because its owner could not ask.
    fn end_or_extend_lease(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        self.waiting.note_if_kept_back(turn, ticket);
        let place = self.waiting.waits.get(ticket);
        let until = place.map_or(0, |place| self.waiting.places.end_of_wait(place));
        match until > turn.now.ms() {
            true => self.waiting.waits.keep_until(ticket, until),
            false => self.end_wait(ticket, State::TimedOut),
        }
    }

    /// The grant of this place has been claimed, which is its end.
    pub fn end_claimed(&mut self, ticket: Ticket) {
        self.end_offer(ticket, true);
        self.give_up(ticket);
    }

    /// Ends the grant of a place that was not claimed, and puts the place to sleep. The holds are given back.
    pub fn lose_grant(&mut self, ticket: Ticket) {
        self.waiting.pending.remove(ticket);
        self.end_offer(ticket, false);
        // Its lease may have gone on in a stall: else it looks as if no tick had come since it ended.
        if let Some(place) = self.waiting.waits.get(ticket) {
            let until = self.waiting.places.end_of_wait(place);
            self.waiting.waits.keep_until(ticket, until);
        }
        self.waiting.fall_asleep(ticket);
    }

    /// The grant of this request, if it has one, has been claimed, or has ended without that.
    pub fn end_offer(&mut self, ticket: Ticket, claimed: bool) {
        let waiter = self.waiting.waits.get(ticket).filter(|waiter| waiter.state.is_grant());
        if let Some(waiter) = waiter {
            self.offers.end(self.holds, ticket, waiter, claimed);
        }
    }

    /// If this request has been granted its locks, and waits for replicas, ends that: the holds are given back.
    pub fn end_pending(&mut self, ticket: Ticket) {
        if self.waiting.pending.remove(ticket) {
            self.end_offer(ticket, false);
            let outcome = match self.waiting.waits.get(ticket) {
                // A renewal: the hold lasts.
                Some(waiter) if waiter.state == State::Pending(0) => {
                    State::NoReplicas(waiter.replicas)
                }
                _ => State::TimedOut,
            };
            self.waiting.decide(ticket, outcome);
        }
    }

    /// Ends up to `most` places and holds that are tied to closed connections; the holds are given back next.
    pub fn end_closed(&mut self, most: usize) {
        let mut left = most;
        while left > 0
            && let Some(&client) = self.offers.closed.first()
        {
            if let Some(place) = self.waiting.waits.tied_to(client) {
                self.end_wait(place, State::SentAway);
                left = left.saturating_sub(1);
                continue;
            }
            let (seen_to, ended) = self.holds.close(client, left);
            self.offers.returns.extend(ended.into_iter().map(|hold| (0, hold)));
            if seen_to == 0 {
                self.offers.closed.pop_first();
            }
            left = left.saturating_sub(seen_to);
        }
    }
}
