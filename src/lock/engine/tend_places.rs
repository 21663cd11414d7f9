//! What a tick does for places, and how places end.

use std::rc::Rc;

use crate::lock::budget::GRANT;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::take_back::Return;
use crate::lock::engine::tick::PAUSE;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::place::end::Ended;
use crate::lock::words::{Fence, Name, Ticket};

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
        let (moved_up, grant) = self.waiting.end_place(ticket, ended);
        if let Some(grant) = grant {
            let heard = ended == Ended::Claimed;
            self.reply_ended(&grant.names, &grant.owner, grant.fence, heard);
        }
        moved_up
    }

    /// Ends the grant of a place that was not claimed, and puts the place to sleep. The holds that no other
    /// reply tells the owner of are given back.
    pub(in crate::lock) fn lose_grant(&mut self, ticket: Ticket) {
        if let Some(grant) = self.waiting.end_claim(ticket) {
            self.reply_ended(&grant.names, &grant.owner, grant.fence, false);
        }
        self.waiting.fall_asleep(ticket);
    }

    /// Notes that a waiter or place that was granted these holds has ended. A hold is given back if the owner
    /// was not told of it and no other reply will do so.
    pub(in crate::lock) fn reply_ended(
        &mut self,
        names: &[Name],
        owner: &Rc<[u8]>,
        fence: Fence,
        heard: bool,
    ) {
        for name in names {
            let ledger = self.holds.ledger(name.db);
            if ledger.reply_ended(&name.key, owner, fence, heard) {
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
