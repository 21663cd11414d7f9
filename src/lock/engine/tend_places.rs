//! What a tick does for places, and how places end.

use std::rc::Rc;

use crate::lock::budget::GRANT;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::take_back::Return;
use crate::lock::engine::tick::PAUSE;
use crate::lock::turn::Turn;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::{Name, Ticket};

impl Locks {
    /// Does what is due for places, except that leases end elsewhere, with the time limits of other waiters.
    pub(in crate::lock) fn see_to_places(&mut self, turn: &mut Turn<'_>) {
        if !self.waiting.waits.has_places() && !self.waiting.places.have_work() {
            return;
        }
        while let Some(ticket) = self.waiting.take_ending(&mut turn.budget) {
            self.end_wait(ticket, State::SentAway);
        }
        while !turn.budget.is_spent()
            && !self.is_put_off(turn.now)
            && let Some(ticket) = self.waiting.places.overdue_claim(turn.now)
        {
            if !turn.keys.is_writable() {
                // What refuses our writes may keep the owner from asking too, and be over before the claim is ended.
                self.waiting.note_if_kept_back(turn, ticket);
                self.put_off = Some(turn.now.plus(PAUSE));
                break;
            }
            turn.budget.draw(GRANT);
            self.end_overdue_claim(turn, ticket);
            if turn.keys.refuses_all() {
                self.put_off = Some(turn.now.plus(PAUSE));
            }
        }
        self.counts.note_waiting(self.waiting.waits.count_waiting());
    }

    /// Ends a lease whose time has come, or extends it because its owner could not ask.
    pub(in crate::lock) fn end_or_extend_lease(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        self.waiting.note_if_kept_back(turn, ticket);
        let until = self.waiting.end_of_lease(ticket);
        match until.filter(|&until| until > turn.now.ms()) {
            Some(until) => self.waiting.waits.keep_until(ticket, until),
            None => self.end_wait(ticket, State::TimedOut),
        }
    }

    /// The grant of this place has been claimed, which is its end.
    pub(in crate::lock) fn end_claimed(&mut self, ticket: Ticket) {
        self.end_offer(ticket, true);
        self.give_up(ticket);
    }

    /// Ends the grant of a place that was not claimed, and puts the place to sleep. The holds are given back.
    pub(in crate::lock) fn lose_grant(&mut self, ticket: Ticket) {
        self.end_offer(ticket, false);
        self.waiting.fall_asleep(ticket);
    }

    /// The grant of this request, if it has one, has been claimed, or has ended without that.
    pub(in crate::lock) fn end_offer(&mut self, ticket: Ticket, claimed: bool) {
        self.waiting.end_claim(ticket);
        let waiter = self.waiting.waits.get(ticket).filter(|waiter| waiter.is_granted());
        if let Some(waiter) = waiter {
            let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
            self.offer_ended(ticket, &names, &owner, claimed);
        }
    }

    /// Notes that a waiter or place that was granted these holds has ended. Those that its owner has not been told of
    /// are given back.
    pub(in crate::lock) fn offer_ended(
        &mut self,
        ticket: Ticket,
        names: &[Name],
        owner: &Rc<[u8]>,
        heard: bool,
    ) {
        for name in names {
            let ledger = self.holds.ledger(name.db);
            if ledger.offer_ended(&name.key, owner, ticket, heard) {
                let (name, owner) = (name.clone(), Rc::clone(owner));
                self.returns.insert((0, Return { name, owner }));
            }
        }
    }

    /// Ends up to `most` places that are tied to a connection that has closed. Returns how many there were.
    pub(in crate::lock) fn end_places_of(&mut self, client: u64, most: usize) -> usize {
        for done in 0..most {
            let Some(ticket) = self.waiting.places.tied_to(client) else {
                return done;
            };
            self.end_wait(ticket, State::SentAway);
        }
        most
    }
}
