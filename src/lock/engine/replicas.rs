//! `REPLICAS n`: a grant that its owner hears of when n replicas have acknowledged it; see
//! [`pending`](crate::lock::waiting::pending).
//!
//! The holds are written for longer than was asked for, by the time that they may wait. When they are acknowledged their
//! end is set to the TTL from then: so replicas know them until the end that the owner reckons with, or a later one.

use std::rc::Rc;

use crate::lock::budget::GRANT;
use crate::lock::engine::acquire::Acquire;
use crate::lock::engine::fit::Part;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::take_back::Return;
use crate::lock::holds::ledger::{Delivery, Entry};
use crate::lock::keyspace::LockEvent;
use crate::lock::log::entry::Reason;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::pending::PendingGrant;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::{
    Acquired, Fence, Hold, Ms, Name, NameRef, Patience, Refusal, Request, Terms, Ticket,
};

/// The holds of a pending grant that its owner does not know of.
type Offered<'n> = Vec<(NameRef<'n>, Hold, Entry)>;

/// The pending grant of its owner that a request joins.
pub(super) enum Joins {
    Grant(Ticket),
    /// It polls for this place.
    Place(Ticket),
    /// It is a try, whose client it may not be possible to block.
    Not,
}

impl<'l> Acquire<'l, '_> {
    /// Returns the pending grant of its owner that the request joins, if there is one; and refuses a request that can't wait
    /// for as many replicas as it wants.
    pub(super) fn see_to_replicas(&mut self, parts: &[Part<'_>]) -> Result<Option<Joins>, Refusal> {
        let (wanted, is_try) = (self.request.replicas, self.request.patience == Patience::Try);
        let are_held = parts.iter().all(Part::is_held);
        let pending = self.names.iter().find_map(|&name| {
            let former = self.locks.holds.former(name, self.request.terms.owner)?;
            let ticket = former.entry.delivery.offered_to()?;
            self.locks.waiting.pending.get(ticket).map(|_| (name, ticket))
        });
        let is_place = matches!(self.request.patience, Patience::Place(_));
        let claimed = pending.map(|(_, ticket)| ticket).or_else(|| {
            let waits = &self.locks.waiting.waits;
            waits.place_of(self.request.terms.owner, self.names).filter(|_| are_held)
        });
        if let Some(place) = claimed.filter(|_| is_place)
            && let Some(waiter) = self.locks.waiting.waits.get(place)
            && waiter.place().is_some()
            && waiter.is_for(self.names)
            && waiter.state.is_grant()
            && (wanted > 0 || waiter.is_acknowledged || pending.is_some())
        {
            return Ok(Some(Joins::Place(place)));
        }
        if let Some((name, ticket)) = pending {
            let waiter = self.locks.waiting.waits.get(ticket);
            let joins = are_held && waiter.is_some_and(|waiter| waiter.is_for(self.names));
            // It may not be possible to block its client.
            if is_try && wanted == 0 {
                count(&mut self.locks.counts.busy, 1);
                return Ok(Some(Joins::Not));
            }
            if !joins {
                return Err(Refusal::Undelivered(name.keep()));
            }
            return Ok(Some(Joins::Grant(ticket)));
        }
        if (is_try || are_held) && self.turn.lacks_replicas(wanted) {
            count(&mut self.locks.counts.replicas_refused, 1);
            let connected = self.turn.keys.replicas(self.turn.now);
            return Err(Refusal::NoReplicas { wanted, connected });
        }
        Ok(None)
    }

    /// `LOCK.RENEW` and `LOCK.MRENEW` whose reply waits for replicas.
    fn renew(&mut self) -> Result<Acquired, Refusal> {
        let (owner, ttl, wanted) =
            (self.request.terms.owner, self.request.terms.ttl, self.request.replicas);
        for &name in self.names {
            self.locks.meet(self.turn, name);
        }
        let known = self.known_ends();
        let holds = |one: &NameRef<'_>| known.iter().any(|(name, _)| name == one);
        if self.names.iter().all(holds) && self.turn.lacks_replicas(wanted) {
            count(&mut self.locks.counts.replicas_refused, 1);
            let connected = self.turn.keys.replicas(self.turn.now);
            return Err(Refusal::NoReplicas { wanted, connected });
        }
        // It does not claim what is offered to a place.
        let offered = |&name: &NameRef<'_>| {
            let former = self.locks.holds.former(name, owner);
            former.is_some_and(|former| former.entry.delivery.offered_to().is_some())
        };
        if self.names.iter().any(offered) {
            count(&mut self.locks.counts.renew_refused, 1);
            return Ok(Acquired::Busy);
        }
        if !self.locks.renew(self.turn, self.names, owner, ttl)? {
            return Ok(Acquired::Busy);
        }
        let tell = self.tell();
        let (waiting, now) = (&mut self.locks.waiting, self.turn.now);
        let ticket = waiting.enlist(self.request, self.names, tell, now);
        waiting.pending.insert(ticket, wanted, now, self.locks.limits.replica_timeout);
        self.note_moved(ticket, known);
        Ok(Acquired::Waiting(ticket))
    }

    /// The holds that the owner knows of, with the ends that it knows.
    fn known_ends(&mut self) -> Vec<(NameRef<'l>, Option<Ms>)> {
        let owner = self.request.terms.owner;
        let mut known = Vec::with_capacity(self.names.len());
        for &name in self.names {
            let Ok(Some((hold, end))) = self.locks.holds.hold_of(self.turn, name, owner) else {
                continue;
            };
            let entry = self.locks.holds.entry(name, owner, hold);
            if entry.is_none_or(|entry| entry.delivery.is_told()) {
                let moved = self.locks.waiting.pending.known_end(name, owner);
                known.push((name, moved.or(end)));
            }
        }
        known
    }

    /// Notes which of these ends this request has moved.
    fn note_moved(&mut self, ticket: Ticket, known: Vec<(NameRef<'_>, Option<Ms>)>) {
        let owner = self.request.terms.owner;
        for (name, known) in known {
            let held = self.locks.holds.hold_of(self.turn, name, owner);
            if let (Some(known), Ok(Some((_, Some(written))))) = (known, held)
                && known != written
            {
                let hold = (name.keep(), Rc::from(owner));
                self.locks.waiting.pending.insert_move(ticket, hold, known, written);
            }
        }
    }

    /// Grants the request its locks, and has it wait for replicas: instead of the client that waits for this grant
    /// already, if one does.
    pub(super) fn take_pending<'n>(
        &mut self,
        parts: impl AsRef<[Part<'n>]> + IntoIterator<Item = Part<'n>>,
        joins: Option<Joins>,
    ) -> Acquired {
        if let Some(Joins::Place(place)) = joins {
            return self.claim_pending(place);
        }
        let (tell, known) = (self.tell(), self.known_ends());
        let (turn, request) = (&mut *self.turn, self.request);
        let Locks { waiting, outbox, limits, .. } = &mut *self.locks;
        let spare = limits.replica_timeout;
        let (ticket, handle) = match joins {
            None => {
                let ticket = waiting.enlist(request, self.names, tell, turn.now);
                (ticket, ticket)
            }
            Some(Joins::Not | Joins::Place(_)) => return Acquired::Busy,
            Some(Joins::Grant(ticket)) => {
                outbox.to_reply.extend(waiting.waits.replace_client(ticket));
                (ticket, waiting.take_over(ticket, request, tell))
            }
        };
        let terms = Terms { spare, ..request.terms };
        let fence = self.locks.take(turn, parts, &terms, Delivery::by(ticket));
        self.locks.waiting.decide(ticket, State::Pending(fence));
        self.locks.waiting.pending.insert(ticket, request.replicas, turn.now, spare);
        self.note_moved(ticket, known);
        if self.locks.waiting.waits.is_place(ticket) {
            return Acquired::Place(0);
        }
        Acquired::Waiting(handle)
    }

    /// The owner of a place that was granted its locks polls: replicas have to acknowledge the claim, before a later poll
    /// returns the token.
    fn claim_pending(&mut self, place: Ticket) -> Acquired {
        let Some(waiter) = self.locks.waiting.waits.get(place) else {
            return Acquired::Busy;
        };
        match waiter.state {
            State::Granted(fence) if waiter.is_acknowledged => {
                self.locks.outcomes().end_claimed(place);
                let Terms { owner, client, session, .. } = self.request.terms;
                for &name in self.names {
                    if let Some(mut former) = self.locks.holds.former(name, owner) {
                        former.entry.tie_to(client, session);
                        self.locks.holds.ledger(name.db).set(name, owner, former.entry);
                    }
                }
                return Acquired::Held(fence);
            }
            State::Granted(fence) => {
                let tell = self.tell();
                let (request, owner) = (self.request, self.request.terms.owner);
                let spare = self.locks.limits.replica_timeout;
                let until = self.turn.now.plus(request.terms.ttl.saturating_add(spare));
                self.locks.waiting.end_claim(place);
                self.locks.waiting.take_over(place, request, tell);
                self.locks.waiting.decide(place, State::Pending(fence));
                let now = self.turn.now;
                self.locks.waiting.pending.insert(place, request.replicas, now, spare);
                for &name in self.names {
                    if let Ok(Some((hold, _))) = self.locks.holds.hold_of(self.turn, name, owner) {
                        self.locks.records(self.turn, name).move_end(owner, hold, until);
                    }
                }
            }
            // The last poll says how its owner hears of it. The end stays as replicas acknowledge it.
            State::Pending(_) => {
                let (ttl, replicas) = (waiter.ttl, waiter.replicas);
                let terms = Terms { ttl, ..self.request.terms };
                let tell = self.tell();
                let request = Request { terms, replicas, ..*self.request };
                self.locks.waiting.take_over(place, &request, tell);
            }
            _ => {}
        }
        Acquired::Place(0)
    }
}

impl Locks {
    /// `LOCK.RENEW` and `LOCK.MRENEW` with `REPLICAS`; not renewed is `Busy`.
    pub fn renew_and_wait(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        request: &Request<'_>,
    ) -> Result<Acquired, Refusal> {
        Acquire { locks: self, turn, names, request, group: None, own: None }.renew()
    }

    /// Does what is due for grants that wait for replicas.
    pub(super) fn see_to_pending(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent()
            && let Some((ticket, pending)) = self.waiting.pending.take_due(turn.now)
        {
            turn.budget.draw(GRANT);
            match self.waiting.waits.get(ticket).map(|waiter| (waiter.state, waiter)) {
                Some((State::Pending(fence), waiter)) => {
                    let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
                    let until = turn.now.plus(waiter.ttl);
                    let offered = self.holds_pending(turn, ticket, (&names, &owner, fence));
                    self.judge_pending(turn, (ticket, pending), (&owner, offered), until);
                }
                _ => _ = self.waiting.pending.remove(ticket),
            }
        }
    }

    /// The holds that this pending grant offers; none if its owner does not hold all of its locks any more.
    fn holds_pending<'n>(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        (names, owner, fence): (&'n [Name], &[u8], Fence),
    ) -> Option<Offered<'n>> {
        let mut offered = Vec::new();
        for name in names.iter().map(Name::borrow) {
            self.meet(turn, name);
            let (hold, _) = self.holds.hold_of(turn, name, owner).ok()??;
            let entry = self.holds.entry(name, owner, hold);
            // A renewal has no token.
            let entry = entry.filter(|entry| fence == 0 || entry.fence() == Some(fence))?;
            if entry.delivery.offered_to() == Some(ticket) {
                offered.push((name, hold, entry));
            }
        }
        Some(offered)
    }

    fn judge_pending(
        &mut self,
        turn: &mut Turn<'_>,
        (ticket, pending): (Ticket, PendingGrant),
        (owner, offered): (&Rc<[u8]>, Option<Offered<'_>>),
        until: Ms,
    ) {
        let is_place = self.waiting.waits.is_place(ticket);
        let Some(offered) = offered else {
            return match is_place {
                true => self.outcomes().lose_grant(ticket),
                false => self.outcomes().end_wait(ticket, State::Withdrawn),
            };
        };
        if pending.is_acknowledged {
            let waited = turn.now.micros().saturating_sub(pending.since.micros());
            count(&mut self.counts.replicated, 1);
            self.counts.replica_waits.add(waited);
            self.waiting.pending.tell_moves(ticket);
            self.outcomes().confirm_pending(ticket);
            for (name, hold, _) in offered {
                // Without that it lasts for longer than it has to.
                if turn.keys.is_writable() && self.records(turn, name).may_write() {
                    self.records(turn, name).move_end(owner, hold, until);
                    self.settle_queue(turn, name);
                }
            }
            self.waiting.acknowledge_claim(ticket, until);
        } else if pending.deadline <= turn.now.ms() {
            let is_retry = offered.is_empty();
            for (name, _, entry) in offered {
                let delivery = Delivery::UNACKNOWLEDGED;
                self.holds.ledger(name.db).set(name, owner, Entry { delivery, ..entry });
                let given_back = Return { name: name.keep(), owner: Rc::clone(owner) };
                self.offers.returns.insert((0, given_back));
            }
            count(&mut self.counts.replicas_refused, 1);
            let moved = self.waiting.pending.moved_by(ticket);
            match is_place {
                true if is_retry => self.outcomes().end_wait(ticket, State::SentAway),
                true => self.outcomes().lose_grant(ticket),
                false => self.outcomes().end_wait(ticket, State::NoReplicas(pending.replicas)),
            }
            for (name, written, known) in moved {
                self.move_back(turn, name.borrow(), owner, (written, known));
            }
        }
    }

    /// Lets a hold end as its owner knows, and not as it was written last: by that time it may be over.
    fn move_back(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        (written, known): (Ms, Ms),
    ) {
        let held = self.holds.hold_of(turn, name, owner);
        let Ok(Some((hold, _))) = held.map(|held| held.filter(|&(_, end)| end == Some(written)))
        else {
            return;
        };
        if !turn.keys.is_writable() || !self.records(turn, name).may_write() {
            return;
        }
        let former = self.holds.former(name, owner);
        if known >= turn.now.ms() {
            self.records(turn, name).move_end(owner, hold, known);
        } else if let Some(former) = former {
            self.records(turn, name).journal().record_lost(Reason::Expired, &[former]);
            turn.keys.announce(name, LockEvent::Expired);
            self.records(turn, name).remove_hold(owner, hold);
        }
        self.settle_queue(turn, name);
    }
}
