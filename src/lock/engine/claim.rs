//! The grant of a place, and its claim. The holds expire unless the owner retries in time, so that a dead
//! owner delays the others by the time to claim, not by a whole ttl.

use std::rc::Rc;

use crate::lock::budget::GRANT;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::tick::PAUSE;
use crate::lock::keyspace::LockEvent;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::{Hold, Name, NameRef, Ticket};

impl Locks {
    /// Does what is due for places, except that leases end with the time limits of other waiters.
    pub(super) fn see_to_places(&mut self, turn: &mut Turn<'_>) {
        if !self.waiting.waits.has_places() && self.waiting.places.work() == 0 {
            return;
        }
        while let Some(ticket) = self.waiting.take_ending(&mut turn.budget) {
            self.outcomes().end_wait(ticket, State::SentAway);
        }
        while !turn.budget.is_spent()
            && !self.is_put_off(turn.now)
            && let Some((end, ticket)) = self.waiting.waits.lists().claims.first()
            && end < turn.now.ms()
        {
            let is_writable = turn.keys.is_writable();
            if is_writable {
                turn.budget.draw(GRANT);
                self.end_overdue_claim(turn, ticket);
            } else {
                // What refuses our writes may keep the owner from asking too, and be over before the claim is ended.
                self.waiting.note_if_kept_back(turn, ticket);
            }
            if !is_writable || turn.keys.refuses_all() {
                self.put_off = Some(turn.now.plus(PAUSE));
            }
        }
        self.counts.note_waiting(self.waiting.waits.lists().waiting());
    }

    /// Puts a granted place to sleep, if it does not hold all its locks any more. For an owner that retries.
    pub(super) fn undo_lost_grant(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let Some(waiter) = self.waiting.waits.get(ticket).filter(|waiter| waiter.is_granted())
        else {
            return;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let held = self.holds_offered(turn, ticket, &names, &owner);
        if held.len() == names.len() {
            return;
        }
        self.outcomes().lose_grant(ticket);
        // The holds that it still has must not keep the place itself, or others, waiting.
        for (name, hold) in held {
            let ended = self.records(turn, name).end_hold(&owner, hold, LockEvent::Released);
            let counted = ended.is_some_and(|ended| ended.is_counted());
            count(&mut self.counts.undelivered, counted);
        }
        self.end_if_its_owner_goes_on(turn, ticket);
    }

    /// Ends a grant that was not claimed in time: the holds expire, and the place sleeps until its lease ends.
    pub(super) fn end_overdue_claim(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let Some(waiter) = self.waiting.waits.get(ticket).filter(|waiter| waiter.is_granted())
        else {
            return;
        };
        let Some(place) = waiter.place() else {
            return;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let (time, is_undelivered) = match &place.notify {
            Some(notify) => (self.limits.claim_time, notify.is_undelivered),
            None => (place.length, false),
        };
        self.waiting.note_if_kept_back(turn, ticket);
        // Its keys may have expired too early by a step of the clock: `meet` writes them again before the holds are ended.
        names.iter().for_each(|name| self.meet(turn, name.borrow()));
        let held = self.holds_offered(turn, ticket, &names, &owner);
        if !held.iter().all(|&(name, _)| self.records(turn, name).may_write()) {
            // What follows from its not being claimed can't be written now.
            self.waiting.waits.claim_by(ticket, turn.now.plus(PAUSE));
            return;
        }
        for name in &*names {
            self.records(turn, name.borrow()).lose_unclaimed(&owner, ticket);
        }
        for (name, hold) in held {
            self.records(turn, name).end_hold(&owner, hold, LockEvent::Expired);
            self.settle_queue(turn, name);
        }
        self.outcomes().lose_grant(ticket);
        if self.end_if_its_owner_goes_on(turn, ticket) {
            return;
        }
        // An owner that could not ask has another turn, unless that closes a deadlock with those that hold the locks now.
        if !is_undelivered && self.waiting.places.end_of(0, time) > turn.now.ms() {
            for name in &*names {
                self.settling(turn, name.borrow()).refresh_holders();
            }
            _ = self.wake(turn, ticket);
        }
    }

    /// The holds that are offered to this place, of those for which it has waited.
    fn holds_offered<'n>(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        names: &'n [Name],
        owner: &[u8],
    ) -> Vec<(NameRef<'n>, Hold)> {
        let offered = names.iter().map(Name::borrow).filter_map(|name| {
            let (hold, _) = self.holds.hold_of(turn, name, owner).ok()??;
            let entry = self.holds.entry(name, owner, hold)?;
            (entry.delivery.offered_to() == Some(ticket)).then_some((name, hold))
        });
        offered.collect()
    }
}
