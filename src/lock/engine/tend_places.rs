//! What a tick does for places, and how places end.

use std::rc::Rc;

use crate::lock::budget::GRANT;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::take_back::Return;
use crate::lock::engine::tick::PAUSE;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::place::end::Ended;
use crate::lock::words::{Name, Ticket};

impl Locks {
    /// Does what is due for places, except that leases end elsewhere, with the time limits of other waiters.
    pub(in crate::lock) fn see_to_places(&mut self, turn: &mut Turn<'_>) {
        if !self.waiting.has_places() && !self.waiting.places().have_work() {
            return;
        }
        while let Some(ticket) = self.waiting.next_to_end(&mut turn.budget) {
            let moved_up = self.end_place(ticket, Ended::Lost);
            self.waiting.settle_later(moved_up);
        }
        while !turn.budget.is_spent()
            && !self.is_put_off(turn.now)
            && let Some(ticket) = self.waiting.places().overdue_claim(turn.now)
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
        self.counts.note_waiting(self.waiting.count_waiting());
    }

    /// Ends a lease whose time has come, or extends it because its owner could not ask.
    pub(in crate::lock) fn end_or_extend_lease(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        self.waiting.note_if_kept_back(turn, ticket);
        let until = self.waiting.end_of_lease(ticket, turn.now);
        match until.filter(|&until| until > turn.now.ms()) {
            Some(until) => self.waiting.keep_until(ticket, until),
            None => {
                let moved_up = self.lapse(ticket);
                self.waiting.settle_later(moved_up);
            }
        }
    }

    /// Ends a place, and the grant that it may have. Returns the locks in whose queues another waiter is now
    /// the first.
    pub(in crate::lock) fn end_place(&mut self, ticket: Ticket, ended: Ended) -> Vec<Name> {
        self.end_claim(ticket, ended == Ended::Claimed);
        self.waiting.end_place(ticket, ended)
    }

    /// Ends the grant of a place that was not claimed, and puts the place to sleep. The holds are given back.
    pub(in crate::lock) fn lose_grant(&mut self, ticket: Ticket) {
        self.end_claim(ticket, false);
        self.waiting.fall_asleep(ticket);
    }

    /// The grant of this place, if it has one, has been claimed, or has ended without that.
    fn end_claim(&mut self, ticket: Ticket, claimed: bool) {
        self.waiting.end_claim(ticket);
        if let Some(place) = self.waiting.waiter(ticket).filter(|place| place.is_granted()) {
            let (names, owner) = (Rc::clone(&place.names), Rc::clone(&place.owner));
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

    /// Ends and counts a place whose owner has not asked in time. Returns the locks in whose queues another
    /// waiter is now the first.
    pub(in crate::lock) fn lapse(&mut self, ticket: Ticket) -> Vec<Name> {
        count(&mut self.counts.places_lapsed, 1);
        self.end_place(ticket, Ended::Lost)
    }

    /// Ends up to `most` places that are tied to a connection that has closed. Returns how many there were.
    pub(in crate::lock) fn end_places_of(&mut self, client: u64, most: usize) -> usize {
        for done in 0..most {
            let Some(ticket) = self.waiting.place_tied_to(client) else {
                return done;
            };
            let moved_up = self.end_place(ticket, Ended::Lost);
            self.waiting.settle_later(moved_up);
        }
        most
    }
}
