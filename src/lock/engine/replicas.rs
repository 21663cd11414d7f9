//! `REPLICAS n`: a grant that its owner hears of when n replicas have acknowledged it; see
//! [`pending`](crate::lock::waiting::pending).
//!
//! The holds are written for longer than was asked for, by the time that they may wait. When they are acknowledged their
//! end is set to the TTL from then: so replicas know them until the end that the owner reckons with, or a later one.
//!
//! | the owner has, and has not heard of | a try | BLOCK | QUEUE |
//! |---|---|---|---|
//! | nothing | `NoReplicas` if too few are connected; else granted, pending with REPLICAS, or nil | the same if it holds the locks; else waits for replicas too | as BLOCK |
//! | a pending grant of these locks, in this mode or a stronger one | joins it; nil without REPLICAS: it may not be possible to block its client | joins it | joins it; a place's stays as it is, and the larger number of replicas counts |
//! | one of other locks, or in a weaker mode | `Undelivered`; nil without REPLICAS | `Undelivered` | `Undelivered` |
//! | a place's turn | as if it had nothing, which claims it | the same | claims it, pending with REPLICAS |
//! | a place's claim that so many replicas have acknowledged | the same | the same | gets the token |

use std::ops::ControlFlow;
use std::rc::Rc;

use crate::lock::budget::GRANT;
use crate::lock::engine::acquire::Acquire;
use crate::lock::engine::fit::Part;
use crate::lock::engine::locks::Locks;
use crate::lock::engine::lost::may_be_known;
use crate::lock::holds::Lost;
use crate::lock::holds::ledger::Delivery;
use crate::lock::keyspace::LockEvent;
use crate::lock::log::entry::Reason;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::pending::PendingGrant;
use crate::lock::waiting::waits::waiter::{State, Waiter};
use crate::lock::words::{
    Acquired, Fence, Hold, Ms, Name, NameRef, Patience, Refusal, Request, Terms, Ticket,
};

impl<'l> Acquire<'l, '_> {
    /// What comes of the request, if that is clear; or the pending grant that it joins. See the table above.
    pub(super) fn see_to_replicas(
        &mut self,
        parts: &[Part<'_>],
    ) -> Result<ControlFlow<Acquired, Option<Ticket>>, Refusal> {
        let (wanted, patience) = (self.request.replicas, self.request.patience);
        let (owner, are_held) = (self.request.terms.owner, parts.iter().all(Part::is_held));
        let Locks { waiting, holds, counts, .. } = &mut *self.locks;
        let pending = self.names.iter().find_map(|&name| {
            let ticket = holds.former(name, owner)?.entry.delivery.offered_to()?;
            waiting.pending.get(ticket).map(|grant| (name, ticket, grant.replicas))
        });
        let waiter = |ticket| waiting.waits.get(ticket);
        let place = waiting.waits.place_of(owner, self.names).filter(|_| are_held);
        let turn = place.and_then(|place| match waiter(place)?.state {
            State::Granted(fence) => Some((place, fence, waiter(place)?.acknowledged)),
            _ => None,
        });
        let is_for_these = |one: &Waiter| are_held && one.is_for(self.names);
        Ok(match (pending, turn, patience) {
            (Some(_), _, Patience::Try) if wanted == 0 => {
                count(&mut counts.busy, 1);
                ControlFlow::Break(Acquired::Busy)
            }
            (Some((name, ticket, _)), ..) if !waiter(ticket).is_some_and(is_for_these) => {
                return Err(Refusal::Undelivered(name.keep()));
            }
            (Some((_, place, before)), _, Patience::Place(_)) if waiting.waits.is_place(place) => {
                ControlFlow::Break(self.poll_pending(place, before))
            }
            (Some((_, ticket, _)), ..) => ControlFlow::Continue(Some(ticket)),
            (None, Some((place, fence, acknowledged)), Patience::Place(_))
                if wanted <= acknowledged && acknowledged > 0 =>
            {
                ControlFlow::Break(self.claim_acknowledged(place, fence))
            }
            (None, Some((place, _, _)), Patience::Place(_)) if wanted > 0 => {
                ControlFlow::Continue(Some(place))
            }
            (None, ..) => {
                if are_held || patience == Patience::Try {
                    self.refuse_if_too_few()?;
                }
                ControlFlow::Continue(None)
            }
        })
    }

    /// The owner of a place polls, whose grant is pending: the poll says how it hears of that. The end stays as replicas
    /// acknowledge it.
    fn poll_pending(&mut self, place: Ticket, before: u8) -> Acquired {
        let (tell, waiting) = (self.tell(), &mut self.locks.waiting);
        if let Some(ttl) = waiting.waits.get(place).map(|waiter| waiter.ttl) {
            let (replicas, terms) =
                (self.request.replicas.max(before), Terms { ttl, ..self.request.terms });
            waiting.waits.take_over(place, &Request { terms, replicas, ..*self.request }, tell);
            if replicas > before {
                waiting.pending.insert(place, replicas, self.turn.now, 0);
            }
        }
        Acquired::Place(0)
    }

    fn refuse_if_too_few(&mut self) -> Result<(), Refusal> {
        let wanted = self.request.replicas;
        if !self.turn.lacks_replicas(wanted) {
            return Ok(());
        }
        count(&mut self.locks.counts.replicas_refused, 1);
        Err(Refusal::NoReplicas { wanted, connected: self.turn.keys.replicas(self.turn.now) })
    }

    /// `LOCK.RENEW` and `LOCK.MRENEW` with REPLICAS; not renewed is `Busy`.
    pub fn renew(&mut self) -> Result<Acquired, Refusal> {
        let (Terms { owner, ttl, .. }, names) = (self.request.terms, self.names);
        names.iter().for_each(|&name| self.locks.meet(self.turn, name));
        let known = self.known_ends();
        if known.len() == names.len() {
            self.refuse_if_too_few()?;
        }
        // It claims nothing that is offered to its owner, or is to be given back.
        let is_unheard = |&name: &NameRef<'_>| {
            let former = self.locks.holds.former(name, owner);
            former.is_some_and(|one| !may_be_known(&self.locks.waiting.waits, &one.entry))
        };
        if names.iter().any(is_unheard) {
            count(&mut self.locks.counts.renew_refused, 1);
            return Ok(Acquired::Busy);
        }
        if !self.locks.move_ends(self.turn, names, owner, ttl)? {
            return Ok(Acquired::Busy);
        }
        let ticket = self.enlist();
        let Locks { waiting, limits, .. } = &mut *self.locks;
        let (replicas, timeout) = (self.request.replicas, limits.replica_timeout);
        waiting.pending.insert(ticket, replicas, self.turn.now, timeout);
        self.note_moved(ticket, known);
        Ok(Acquired::Waiting(ticket))
    }

    /// Lists the request, whose client is blocked until replicas have acknowledged what it gets.
    fn enlist(&mut self) -> Ticket {
        let tell = self.tell();
        self.locks.waiting.enlist(self.request, self.names, tell, self.turn.now)
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
            if entry.is_none_or(|entry| may_be_known(&self.locks.waiting.waits, &entry)) {
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
    /// already, if it joins one.
    pub(super) fn take_pending<'n>(
        &mut self,
        parts: impl AsRef<[Part<'n>]> + IntoIterator<Item = Part<'n>>,
        joins: Option<Ticket>,
    ) -> Acquired {
        let known = self.known_ends();
        let (ticket, handle) = match joins {
            None => {
                let ticket = self.enlist();
                (ticket, ticket)
            }
            Some(ticket) => (ticket, self.take_over_as_it_is(ticket)),
        };
        let (turn, request) = (&mut *self.turn, self.request);
        let spare = self.locks.limits.replica_timeout;
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

    /// The owner of a place polls, and replicas have acknowledged its claim: it gets the token.
    fn claim_acknowledged(&mut self, place: Ticket, fence: Fence) -> Acquired {
        let Terms { owner, client, session, .. } = self.request.terms;
        self.locks.outcomes().end_claimed(place);
        for &name in self.names {
            if let Some(mut former) = self.locks.holds.former(name, owner) {
                former.entry.tie_to(client, session);
                self.locks.holds.ledger(name.db).set(name, owner, former.entry);
            }
        }
        Acquired::Held(fence)
    }
}

impl Locks {
    /// Does what is due for grants that wait for replicas.
    pub(super) fn see_to_pending(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent()
            && let Some(ticket) = self.waiting.pending.take_due(turn.now)
        {
            turn.budget.draw(GRANT);
            self.judge_pending(turn, ticket);
        }
    }

    fn judge_pending(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let Some(pending) = self.waiting.pending.get(ticket) else {
            return;
        };
        let &PendingGrant { replicas, since, deadline, is_acknowledged, .. } = pending;
        let waiter = self.waiting.waits.get(ticket);
        let Some((State::Pending(fence), waiter)) = waiter.map(|one| (one.state, one)) else {
            self.waiting.pending.remove(ticket);
            return;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let (handle, until) = (waiter.client_handle(), turn.now.plus(waiter.ttl));
        let offered = self.holds_pending(turn, ticket, (&names, &owner, fence));
        let (mut outcome, mut moved) = (State::Withdrawn, Vec::new());
        let is_retry = offered.as_ref().is_some_and(Vec::is_empty);
        if let Some(offered) = offered {
            // Replicas know the holds until the end of the TTL only if it begins in time.
            if is_acknowledged && turn.now.ms() <= deadline {
                let waited = turn.now.micros().saturating_sub(since.micros());
                count(&mut self.counts.replicated, 1);
                self.counts.replica_waits.add(waited);
                self.waiting.pending.tell_moves(ticket);
                self.waiting.pending.remove(ticket);
                self.waiting.decide(ticket, State::Granted(fence));
                self.outbox.to_reply.extend(handle);
                for (name, hold, end) in offered {
                    // Without that it lasts for longer than it has to.
                    if turn.keys.is_writable() && self.records(turn, name).may_write() {
                        self.records(turn, name).move_end(&owner, hold, until.min(end));
                        self.settle_queue(turn, name);
                    }
                }
                return self.waiting.begin_claim(ticket, replicas, until);
            }
            if turn.now.ms() < deadline {
                return;
            }
            count(&mut self.counts.replicas_refused, 1);
            (outcome, moved) = (State::NoReplicas(replicas), self.waiting.pending.moved_by(ticket));
        }
        match handle.is_none() && !is_retry {
            true => self.outcomes().lose_grant(ticket),
            false => self.outcomes().end_wait(ticket, outcome),
        }
        for (name, written, known) in moved {
            self.move_back(turn, name.borrow(), &owner, (written, known));
        }
    }

    /// The holds that this pending grant offers; none if its owner does not hold all of its locks any more.
    fn holds_pending<'n>(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        (names, owner, fence): (&'n [Name], &[u8], Fence),
    ) -> Option<Vec<(NameRef<'n>, Hold, Ms)>> {
        let mut offered = Vec::new();
        for name in names.iter().map(Name::borrow) {
            self.meet(turn, name);
            let (hold, end) = self.holds.hold_of(turn, name, owner).ok()??;
            let entry = self.holds.entry(name, owner, hold);
            // A renewal has no token: it is of a hold that its owner knows of.
            let entry = entry.filter(|entry| match fence {
                0 => may_be_known(&self.waiting.waits, entry),
                _ => entry.fence() == Some(fence),
            })?;
            if entry.delivery.offered_to() == Some(ticket) {
                offered.push((name, hold, end.unwrap_or(Ms::MAX)));
            }
        }
        Some(offered)
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
            self.records(turn, name)
                .journal
                .record_lost(&[Lost { former, reason: Reason::Expired }]);
            self.records(turn, name).end_hold(owner, hold, LockEvent::Expired);
        }
        self.settle_queue(turn, name);
    }
}
