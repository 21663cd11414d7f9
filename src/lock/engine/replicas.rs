//! `REPLICAS n`: a grant that its owner hears of when n replicas have acknowledged it; see
//! [`pending`](crate::lock::engine::pending).
//!
//! The holds are written for longer than was asked for, by the time that they may wait. When they are acknowledged their
//! end is set to the TTL from then: so replicas know them until the end that the owner reckons with, or a later one.

use std::rc::Rc;

use crate::lock::budget::GRANT;
use crate::lock::engine::fit::{Fit, Part};
use crate::lock::engine::locks::Locks;
use crate::lock::engine::own_wait::tell;
use crate::lock::engine::take_back::Return;
use crate::lock::engine::tick::PAUSE;
use crate::lock::holds::ledger::{Delivery, Entry};
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::{
    Acquired, Fence, Hold, Ms, Name, NameRef, Now, Patience, Refusal, Request, Terms, Ticket,
};

impl Locks {
    /// For how much longer a hold is written that so many replicas have to acknowledge.
    pub(in crate::lock) fn spare(&self, replicas: u8) -> Ms {
        if replicas > 0 { self.limits.replica_timeout } else { 0 }
    }

    /// Is this hold offered to a request that waits for replicas? Its owner does not have it yet.
    #[inline]
    pub(in crate::lock) fn is_pending(&self, name: NameRef<'_>, owner: &[u8], hold: Hold) -> bool {
        !self.offers.pending.is_empty()
            && self.holds.entry(name, owner, hold).is_some_and(|entry| self.pends(&entry).is_some())
    }

    /// The request that this hold is offered to, if it waits for replicas.
    fn pends(&self, entry: &Entry) -> Option<Ticket> {
        let ticket = entry.delivery.offered_to()?;
        self.offers.pending.get(ticket).map(|_| ticket)
    }

    pub(in crate::lock) fn lacks_replicas(&self, turn: &mut Turn<'_>, wanted: u8) -> bool {
        turn.keys.replicas(turn.now) < usize::from(wanted)
    }

    /// Has a request join the grant of its owner that waits for replicas, if there is one, and refuses one that can't wait
    /// for as many replicas as it wants. Returns nothing if it is to be judged like any other.
    pub(in crate::lock) fn see_to_replicas(
        &mut self,
        turn: &mut Turn<'_>,
        (names, parts): (&[NameRef<'_>], &[Part<'_>]),
        request: &Request<'_>,
    ) -> Result<Option<Acquired>, Refusal> {
        let is_held = |part: &Part<'_>| matches!(part.fit, Fit::Held { .. });
        let are_held = parts.iter().all(is_held);
        let pending = names.iter().find_map(|&name| {
            let former = self.holds.former(name, request.terms.owner)?;
            Some((name, self.pends(&former.entry)?))
        });
        let may_block = request.replicas > 0
            || matches!(request.patience, Patience::Until(_) | Patience::Forever);
        if let Some((name, ticket)) = pending {
            let waiter = self.waiting.waits.get(ticket);
            return match waiter.is_some_and(|waiter| are_held && waiter.is_for(names)) {
                _ if !may_block => Ok(Some(self.count_busy())),
                true => Ok(Some(self.join_pending(turn, parts, request, ticket))),
                false => Err(Refusal::Unheard(name.keep())),
            };
        }
        if request.replicas > 0 && (request.patience == Patience::Try || are_held) {
            let (wanted, connected) = (request.replicas, turn.keys.replicas(turn.now));
            if connected < wanted.into() {
                count(&mut self.counts.replicas_refused, 1);
                return Err(Refusal::NoReplicas { wanted, connected });
            }
        }
        Ok(None)
    }

    /// The client of this request waits for the grant instead of the one before it.
    fn join_pending(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &[Part<'_>],
        request: &Request<'_>,
        ticket: Ticket,
    ) -> Acquired {
        let replaced = self.waiting.waits.replace_client(ticket);
        self.outbox.to_reply.extend(replaced);
        let handle = self.waiting.take_over(ticket, request, tell(turn, request));
        self.write_pending(turn, parts, request, ticket);
        self.offers.pending.join(ticket, request.replicas);
        Acquired::Waiting(handle)
    }

    /// Lists a request that is granted its locks next, and waits for replicas then.
    pub(in crate::lock) fn enlist_pending(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        request: &Request<'_>,
    ) -> Ticket {
        let tell = tell(turn, request);
        self.waiting.enlist(request, names, turn.now, tell)
    }

    /// Grants it the locks.
    pub(in crate::lock) fn take_pending(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &[Part<'_>],
        request: &Request<'_>,
        ticket: Ticket,
    ) -> Fence {
        let fence = self.write_pending(turn, parts, request, ticket);
        self.begin_pending(turn.now, ticket);
        fence
    }

    fn write_pending(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &[Part<'_>],
        request: &Request<'_>,
        ticket: Ticket,
    ) -> Fence {
        let terms = Terms { spare: self.limits.replica_timeout, ..request.terms };
        let fence = self.take(turn, parts, &terms, Delivery::by(ticket));
        self.waiting.decide(ticket, State::Pending(fence));
        fence
    }

    /// A request that has been granted its locks waits for replicas from now on.
    pub(in crate::lock) fn begin_pending(&mut self, now: Now, ticket: Ticket) {
        if let Some(waiter) = self.waiting.waits.get(ticket) {
            let timeout = self.limits.replica_timeout;
            self.offers.pending.insert(ticket, waiter.replicas, now, timeout);
        }
    }

    /// Lets a request wait that could be granted its locks, but not tell enough replicas.
    pub(in crate::lock) fn wait_for_replicas(
        &mut self,
        turn: &mut Turn<'_>,
        (names, parts): (&[NameRef<'_>], &[Part<'_>]),
        request: &Request<'_>,
        own: Option<Ticket>,
    ) -> Result<Acquired, Refusal> {
        if self.limits.drain {
            return Ok(self.count_busy());
        }
        let waits = self.wait(turn, (names, parts), request, own)?;
        names.iter().for_each(|&name| self.waiting.queues.retry_later(name, turn.now));
        Ok(waits)
    }

    /// Are too few replicas connected for the request of this waiter? Then it is tried again shortly.
    pub(in crate::lock) fn waits_for_replicas(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
    ) -> bool {
        let Some(waiter) = self.waiting.waits.get(ticket) else {
            return false;
        };
        let (names, lacks) = (Rc::clone(&waiter.names), waiter.replicas);
        let lacks = self.lacks_replicas(turn, lacks);
        if lacks {
            names.iter().for_each(|name| self.waiting.queues.retry_later(name.borrow(), turn.now));
        }
        lacks
    }

    /// Does any grant wait for replicas?
    pub fn has_pending(&self) -> bool {
        !self.offers.pending.is_empty()
    }

    /// Has any of them something to be done, by those who hear replicas?
    pub fn replicas_have(&mut self, sent: u64, acknowledged: Vec<u64>) -> bool {
        self.offers.pending.heard(sent, acknowledged)
    }

    /// Does what is due for grants that wait for replicas.
    pub(in crate::lock) fn see_to_pending(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent()
            && let Some(ticket) = self.offers.pending.take_due(turn.now)
        {
            turn.budget.draw(GRANT);
            self.judge_pending(turn, ticket);
        }
    }

    fn judge_pending(&mut self, turn: &mut Turn<'_>, ticket: Ticket) {
        let Some(&pending) = self.offers.pending.get(ticket) else {
            return;
        };
        let Some(waiter) = self.waiting.waits.get(ticket) else {
            self.offers.pending.remove(ticket);
            return;
        };
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        let (state, ttl) = (waiter.state(), waiter.ttl);
        let State::Pending(fence) = state else {
            self.offers.pending.remove(ticket);
            return;
        };
        if !names.iter().all(|name| turn.keys.can_open(name.borrow())) {
            return self.offers.pending.look_again(ticket, turn.now.plus(PAUSE));
        }
        let (mut offered, mut held) = (Vec::new(), 0_usize);
        for name in names.iter().map(Name::borrow) {
            self.meet(turn, name);
            let Ok(Some((hold, _))) = self.holds.hold_of(turn, name, &owner) else {
                continue;
            };
            let entry = self.holds.entry(name, &owner, hold);
            let Some(entry) = entry.filter(|entry| entry.fence() == Some(fence)) else {
                continue;
            };
            held = held.saturating_add(1);
            if entry.delivery.offered_to() == Some(ticket) {
                offered.push((name, hold, entry));
            }
        }
        if held < names.len() {
            self.outcomes().end_wait(ticket, State::Withdrawn);
        } else if pending.is_acknowledged {
            self.tell_pending(turn, ticket, (&owner, &offered), fence, ttl);
        } else if pending.deadline <= turn.now.ms() {
            for (name, _, entry) in offered {
                let delivery = Delivery::UNACKNOWLEDGED;
                self.holds.ledger(name.db).set(name.key, &owner, Entry { delivery, ..entry });
                let given_back = Return { name: name.keep(), owner: Rc::clone(&owner) };
                self.offers.returns.insert((0, given_back));
            }
            count(&mut self.counts.replicas_refused, 1);
            self.outcomes().end_wait(ticket, State::NoReplicas(pending.replicas));
        }
    }

    /// Enough replicas have acknowledged a grant: its TTL begins, unless no key can be written now, and its client gets
    /// its number.
    fn tell_pending(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        (owner, offered): (&[u8], &[(NameRef<'_>, Hold, Entry)]),
        fence: Fence,
        ttl: Ms,
    ) {
        if let Some(pending) = self.offers.pending.get(ticket) {
            let waited = turn.now.micros().saturating_sub(pending.since.micros());
            count(&mut self.counts.replicated, 1);
            self.counts.replica_waits.add(waited);
        }
        self.offers.pending.remove(ticket);
        self.waiting.decide(ticket, State::Granted(fence));
        self.outbox.to_reply.push(self.waiting.waits.client_of(ticket));
        let until = turn.now.plus(ttl);
        for &(name, hold, _) in offered {
            if !turn.keys.is_writable() || !self.may_write(turn, name) {
                continue;
            }
            if hold == Hold::Shared {
                let lost = self.holds.make_room(turn, name);
                self.record_ended(turn, name, lost);
            }
            turn.prolong(name, owner, hold, until);
            self.holds.set_end(name, owner, hold, until, turn.now);
            self.settle_queue(turn, name);
        }
    }
}
