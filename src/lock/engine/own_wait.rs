//! One owner, one wait: what becomes of a request whose owner waits already.
//!
//! An owner waits by one request in each database. What it has decides what comes of its next request that would have
//! to wait, and of all else that may befall it:
//!
//! | the owner has | same locks, same mode | same locks, another mode | other locks | a try | RELEASE of one of its locks |
//! |---|---|---|---|---|---|
//! | nothing | joins at the end | joins at the end | joins at the end | granted, or not | nothing to withdraw |
//! | a wait by a blocked client | takes it over in its position; that client gets `Replaced` | is judged as if it were gone, joins at the end, and that client gets `Replaced`; if it is refused, all is as it was | `OneWait` | is judged as if the wait were not in its queues, and leaves it as it is | withdrawn: that client gets nil |
//! | a wait by a place | takes it over in its position | the same, and the place ends | `OneWait` | the same | ends |
//! | a place that is passed by | wakes it where it stood, unless that closes a deadlock, and takes it over | the same | `OneWait` | the same | ends |
//! | a grant that its client has not heard of | a holder's retry: the same number, told | a holder's retry, or an upgrade | joins, and `Undelivered` if it asks for that lock too | a holder's retry | given back |
//! | a grant that it has not claimed | a holder's retry, which claims it | a holder's retry, or an upgrade, which claim it | the same; and a claim that runs out while its owner waits, or holds one of these locks otherwise, ends the place | a holder's retry, which claims it | given back |
//! | a wait that is about to end: its time is up, it is to be sent away, its slot has left | ends it first, and joins at the end | the same | the same | granted, or not | ends it |
//!
//! CLIENT UNBLOCK, and the end of a connection, end the wait of the client that is blocked for it now. What becomes of a
//! client that was replaced, in the same turn of the server's loop or later, does not touch the wait
//! ([`clients`](crate::lock::waiting::waits::clients)). A wait whose owner comes to hold its locks otherwise is replied to
//! with that, and one whose owner comes to share a lock that it asks for alone is over. If the server lets no module block
//! the client of the last request, that gets an error and nothing waits: the client before it was replaced all the same.

use std::rc::Rc;

use crate::lock::engine::acquire::Acquire;
use crate::lock::engine::fit::Part;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::wait::refuse_deadlock;
use crate::lock::turn::Turn;
use crate::lock::waiting::place::Place;
use crate::lock::waiting::waits::waiter::{State, Waiter};
use crate::lock::words::{Acquired, Ms, Name, Patience, Refusal, Ticket};

impl Acquire<'_, '_> {
    /// Returns the wait of this request's owner. One that is about to end is ended first, and a granted place for these
    /// locks that does not hold all of them any more sleeps again.
    pub(super) fn settle_own_wait(&mut self) -> Option<Ticket> {
        let (owner, db) = (self.request.terms.owner, self.names.first()?.db);
        self.locks.waiting.note_stall(self.turn.now);
        if let Some(place) = self.locks.waiting.waits.place_of(owner, self.names) {
            self.locks.undo_lost_grant(self.turn, place);
        }
        let waiting = &self.locks.waiting;
        let own = waiting.waits.wait_of(owner, db)?;
        let is_to_end = || waiting.is_to_end(own).then_some(State::SentAway);
        if let Some(outcome) = waiting.outcome_if_over(own, self.turn.now).or_else(is_to_end) {
            self.locks.outcomes().end_wait(own, outcome);
            return None;
        }
        // An owner that asks for its place in time has done so, also if the key is no lock just now.
        let is_kept = |one: &Waiter| {
            let is_waiting = one.place().is_some() && one.state == State::Waiting;
            is_waiting && one.is_for(self.names) && one.mode == self.request.terms.mode
        };
        if matches!(self.request.patience, Patience::Place(_))
            && waiting.waits.get(own).is_some_and(is_kept)
        {
            self.take_over_as_it_is(own);
        }
        Some(own)
    }

    /// Lets the request wait, which can't be granted now: by its owner's own wait, if that is for the same.
    pub(super) fn wait(&mut self, parts: &[Part<'_>]) -> Result<Acquired, Refusal> {
        if let Some(undelivered) = self.undelivered(parts) {
            return Err(undelivered);
        }
        if let Some(own) = self.own
            && let Some(waiter) = self.locks.waiting.waits.get(own)
        {
            if !waiter.is_for(self.names) {
                return Err(Refusal::OneWait(Rc::clone(&waiter.names)));
            }
            if waiter.mode == self.request.terms.mode {
                return self.take_over(own);
            }
        }
        let ticket = self.enroll(parts)?;
        if let Some(own) = self.own {
            self.locks.outcomes().give_way(own);
        }
        Ok(self.waits_by(ticket, ticket))
    }

    /// What comes of the request, which waits by this ticket now: as a place, or for a client with this handle.
    fn waits_by(&self, ticket: Ticket, handle: Ticket) -> Acquired {
        match self.request.patience {
            Patience::Place(_) => {
                Acquired::Place(self.locks.waiting.queues.before(self.names, ticket))
            }
            _ => Acquired::Waiting(handle),
        }
    }

    /// Refuses the request if it is for a lock that its owner was granted, and may still hear of.
    pub(super) fn undelivered(&self, parts: &[Part<'_>]) -> Option<Refusal> {
        let is_undelivered = |part: &&Part<'_>| {
            let own = part.own.filter(|_| part.is_held()).map(|(hold, _)| hold);
            let owner = self.request.terms.owner;
            let entry = own.and_then(|hold| self.locks.holds.entry(part.name, owner, hold));
            entry.is_some_and(|entry| entry.delivery.offered_to().is_some())
        };
        let undelivered = parts.iter().find(is_undelivered);
        undelivered.map(|part| Refusal::Undelivered(part.name.keep()))
    }

    /// Has the request take over its owner's wait for the same locks in the same mode. A place that sleeps wakes, unless
    /// it would wait for itself then.
    fn take_over(&mut self, own: Ticket) -> Result<Acquired, Refusal> {
        let asks_for_place = matches!(self.request.patience, Patience::Place(_));
        if !self.locks.waiting.waits.is_waiting(own) {
            let found = self.locks.wake(self.turn, own);
            refuse_deadlock(&mut self.locks.counts, found)?;
            if asks_for_place {
                self.take_over_as_it_is(own);
            }
            // Where it stands it may be served.
            for &name in self.names {
                self.locks.settle_queue(self.turn, name);
            }
            if !self.locks.waiting.waits.is_waiting(own) {
                return self.acquire();
            }
        }
        // A place that is asked for once more has been kept already.
        if asks_for_place && self.locks.waiting.waits.is_place(own) {
            return Ok(self.waits_by(own, own));
        }
        let handle = self.take_over_as_it_is(own);
        Ok(self.waits_by(own, handle))
    }

    /// The same of a wait that does not sleep: its client, if it has one, waits no more. Returns the handle of the client
    /// that is to be blocked, if one is.
    pub(super) fn take_over_as_it_is(&mut self, own: Ticket) -> Ticket {
        let (tell, Locks { waiting, outbox, .. }) = (self.tell(), &mut *self.locks);
        outbox.to_reply.extend(waiting.waits.replace_client(own));
        waiting.waits.take_over(own, self.request, tell)
    }

    /// Until when the request waits, if not indefinitely; and what makes it a place, if it is one.
    pub(super) fn tell(&mut self) -> (Option<Ms>, Option<Place>) {
        match self.request.patience {
            Patience::Place(lease) => {
                let place = Place::new(&lease, self.turn.keys.asker(lease.command));
                (Some(self.turn.now.plus(lease.length)), Some(place))
            }
            Patience::Until(until) => (Some(until), None),
            Patience::Try | Patience::Forever => (None, None),
        }
    }
}

impl Locks {
    /// A place whose owner waits for other locks, or has come to hold one of its own otherwise, is over. Returns whether
    /// this one is.
    pub(super) fn end_if_its_owner_goes_on(&mut self, turn: &mut Turn<'_>, ticket: Ticket) -> bool {
        let place = self.waiting.waits.get(ticket).filter(|one| one.place().is_some());
        let Some(place) = place.filter(|&one| Waiter::has_not_ended(one)) else {
            return false;
        };
        let (owner, names) = (Rc::clone(&place.owner), Rc::clone(&place.names));
        let waits = |one: &Name| self.waiting.waits.waits_of(&owner, one.db).nth(1).is_some();
        let mut holds = |one: &Name| {
            let hold = self.holds.hold_of(turn, one.borrow(), &owner);
            hold.is_ok_and(|hold| hold.is_some())
        };
        let is_over = names.first().is_some_and(waits) || names.iter().any(&mut holds);
        if is_over {
            self.outcomes().end_wait(ticket, State::Withdrawn);
        }
        is_over
    }
}
