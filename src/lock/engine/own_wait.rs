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
//! | a grant that its client has not heard of | a holder's retry: the same number, told | a holder's retry, or an upgrade | joins, and `Unheard` if it asks for that lock too | a holder's retry | given back |
//! | a grant that it has not claimed | a holder's retry, which claims it | a holder's retry, or an upgrade, which claim it | the same; and a claim that runs out while its owner waits, or holds one of these locks otherwise, ends the place | a holder's retry, which claims it | given back |
//! | a wait that is about to end: its time is up, it is to be sent away, its slot has left | ends it first, and joins at the end | the same | the same | granted, or not | ends it |
//!
//! CLIENT UNBLOCK, and the end of a connection, end the wait of the client that is blocked for it now. What becomes of a
//! client that was replaced, in the same turn of the server's loop or later, does not touch the wait
//! ([`take_over`](crate::lock::waiting::take_over)). A wait whose owner comes to hold its locks otherwise is replied to
//! with that, and one whose owner comes to share a lock that it asks for alone is over. If the server lets no module block
//! the client of the last request, that gets an error and nothing waits: the client before it was replaced all the same.

use std::rc::Rc;

use crate::lock::engine::fit::{Fit, Part};
use crate::lock::engine::locks::Locks;
use crate::lock::turn::Turn;
use crate::lock::waiting::place::Place;
use crate::lock::waiting::place::end::Ended;
use crate::lock::waiting::queue::State;
use crate::lock::words::{Acquired, Lease, Name, NameRef, Patience, Refusal, Request, Ticket};

impl Locks {
    /// The wait of this request's owner. One that is about to end is ended first, and a granted place for these locks
    /// that does not hold all of them any more sleeps again.
    pub(in crate::lock) fn own_wait(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        request: &Request<'_>,
    ) -> Option<Ticket> {
        let (owner, db) = (request.terms.owner, names.first()?.db);
        if let Some(place) = self.waiting.place_of(owner, names) {
            self.undo_lost_grant(turn, place);
        }
        let own = self.waiting.wait_of(owner, db)?;
        let moved_up = match self.waiting.outcome_if_over(own, turn.now) {
            Some(outcome) => self.decide(own, outcome),
            None if self.waiting.is_place(own) && self.waiting.is_to_end(own) => {
                self.end_place(own, Ended::Lost)
            }
            None => {
                // An owner that asks for its place in time has done so, also if the key is no lock just now.
                if let Patience::Place(lease) = request.patience
                    && self.waiting.is_place(own)
                    && self.waiting.is_waiting(own)
                    && self.is_for(own, names, request)
                {
                    self.keep_place(turn, own, request, &lease);
                }
                return Some(own);
            }
        };
        self.waiting.settle_later(moved_up);
        None
    }

    /// Ends the waits right behind this one, or before it, that are over: they are not in its owner's way.
    pub(in crate::lock) fn end_overdue_behind(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        own: Ticket,
    ) {
        while !turn.budget.is_spent()
            && let Some(next) = self.waiting.queue_of(name).and_then(|one| one.first_but(Some(own)))
            && let Some(outcome) = self.waiting.outcome_if_over(next, turn.now)
        {
            turn.budget.draw(self.waiting.reply_cost(next));
            let moved_up = self.decide(next, outcome);
            self.waiting.settle_later(moved_up);
        }
    }

    /// Is this wait for these locks, and in the mode of this request?
    fn is_for(&self, own: Ticket, names: &[NameRef<'_>], request: &Request<'_>) -> bool {
        let waiter = self.waiting.waiter(own);
        waiter.is_some_and(|own| own.is_for(names) && own.mode == request.terms.mode)
    }

    /// Lets a request wait that can't be granted now: by its owner's own wait, if that is for the same.
    pub(in crate::lock) fn wait(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &[Part<'_>],
        request: &Request<'_>,
        own: Option<Ticket>,
    ) -> Result<Acquired, Refusal> {
        if let Some(unheard) = self.unheard(parts, request) {
            return Err(unheard);
        }
        let names: Vec<NameRef<'_>> = parts.iter().map(|part| part.name).collect();
        let waiter = own.and_then(|own| self.waiting.waiter(own));
        if let Some(waiter) = waiter.filter(|waiter| !waiter.is_for(&names)) {
            return Err(Refusal::OneWait(Rc::clone(&waiter.names)));
        }
        if let Some(own) = own.filter(|&own| self.is_for(own, &names, request)) {
            return self.take_over(turn, own, &names, request);
        }
        let ticket = self.enroll(turn, parts, request, own)?;
        if let Patience::Place(lease) = request.patience {
            self.waiting.renew_lease(turn.now, ticket, request, &lease, None);
        }
        if let Some(own) = own {
            self.give_way(own);
        }
        if matches!(request.patience, Patience::Place(_)) {
            return Ok(Acquired::Place(self.waiting.before(ticket)));
        }
        Ok(Acquired::Waiting(ticket))
    }

    /// Refuses a request for a lock that its owner was granted, and may still hear of.
    pub(in crate::lock) fn unheard(
        &self,
        parts: &[Part<'_>],
        request: &Request<'_>,
    ) -> Option<Refusal> {
        let is_unheard = |part: &&Part<'_>| {
            let Fit::Held { hold, .. } = part.fit else {
                return false;
            };
            let entry = self.holds.entry(part.name, request.terms.owner, hold);
            entry.is_some_and(|entry| entry.delivery.offered_to().is_some())
        };
        let unheard = parts.iter().find(is_unheard);
        unheard.map(|part| Refusal::Unheard(part.name.keep()))
    }

    /// Has the request take over its owner's wait for the same locks in the same mode. A place that sleeps wakes, unless
    /// it would wait for itself then.
    fn take_over(
        &mut self,
        turn: &mut Turn<'_>,
        own: Ticket,
        names: &[NameRef<'_>],
        request: &Request<'_>,
    ) -> Result<Acquired, Refusal> {
        if !self.waiting.is_waiting(own) {
            self.waiting.wake(own);
            let refused = self.refuse_deadlock(turn, own, None);
            if refused.is_err() {
                let moved_up = self.waiting.leave(own);
                self.waiting.settle_later(moved_up);
                self.waiting.fall_asleep(own);
                refused?;
            }
            if let Patience::Place(lease) = request.patience {
                self.keep_place(turn, own, request, &lease);
            }
            // Where it stands it may be served.
            for &name in names {
                self.settle_queue(turn, name);
            }
            if !self.waiting.is_waiting(own) {
                return self.acquire(turn, names, request);
            }
        }
        let replaced = self.waiting.replace_client(own);
        self.outbox.to_reply.extend(replaced);
        let Patience::Place(lease) = request.patience else {
            let until = match request.patience {
                Patience::Until(until) => Some(until),
                _ => None,
            };
            return Ok(Acquired::Waiting(self.waiting.take_over(own, request, until, None)));
        };
        if !self.waiting.is_place(own) {
            let place = Some(Box::new(Place::new(lease.length, turn.keys.asker(lease.command))));
            self.waiting.take_over(own, request, Some(turn.now.plus(lease.length)), place);
            self.keep_place(turn, own, request, &lease);
        }
        Ok(Acquired::Place(self.waiting.before(own)))
    }

    /// The owner of this place has asked for it.
    fn keep_place(
        &mut self,
        turn: &mut Turn<'_>,
        own: Ticket,
        request: &Request<'_>,
        lease: &Lease<'_>,
    ) {
        let asker = Some(turn.keys.asker(lease.command));
        self.waiting.renew_lease(turn.now, own, request, lease, asker);
    }

    /// This wait is given up for another request of its owner, which stands at the end of the same queues. Those behind
    /// it are served in the next tick: the new request's client has yet to be blocked.
    fn give_way(&mut self, own: Ticket) {
        let moved_up = if self.waiting.is_place(own) {
            self.end_place(own, Ended::ByItsOwner)
        } else {
            let replaced = self.waiting.replace_client(own);
            self.outbox.to_reply.extend(replaced);
            let moved_up = self.waiting.leave(own);
            self.waiting.forget(own);
            moved_up
        };
        self.waiting.settle_later(moved_up);
    }

    /// A place whose owner waits for other locks, or has come to hold one of its own otherwise, is over as soon as it is
    /// passed by. Returns whether this one is.
    pub(in crate::lock) fn end_if_its_owner_goes_on(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
    ) -> bool {
        let waiter = self.waiting.waiter(ticket).filter(|one| one.state() == State::Asleep);
        let Some((owner, names)) = waiter.map(|one| (Rc::clone(&one.owner), Rc::clone(&one.names)))
        else {
            return false;
        };
        let waits = names.first().is_some_and(|one| self.waiting.has_two_waits(&owner, one.db));
        let mut holds = |one: &Name| {
            let hold = self.holds.hold_of(turn, one.borrow(), &owner);
            hold.is_ok_and(|hold| hold.is_some())
        };
        let is_over = waits || names.iter().any(&mut holds);
        if is_over {
            let moved_up = self.end_place(ticket, Ended::ByItsOwner);
            self.waiting.settle_later(moved_up);
        }
        is_over
    }
}
