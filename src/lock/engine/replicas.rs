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
use crate::lock::engine::pending::PendingGrant;
use crate::lock::engine::take_back::Return;
use crate::lock::holds::ledger::{Delivery, Entry};
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::words::{
    Acquired, Hold, Ms, Name, NameRef, Patience, Refusal, Request, Terms, Ticket,
};

/// The holds of a pending grant that its owner has not heard of.
type Offered<'n> = Vec<(NameRef<'n>, Hold, Entry)>;

impl Locks {
    /// Does this hold's owner not have it yet, because replicas have to acknowledge it?
    #[inline]
    pub(in crate::lock) fn is_pending(&self, name: NameRef<'_>, owner: &[u8], hold: Hold) -> bool {
        !self.offers.pending.is_empty()
            && (self.holds.entry(name, owner, hold))
                .is_some_and(|entry| self.offers.pending.of(&entry).is_some())
    }

    /// Has a request join the pending grant of its owner, if there is one, and refuses one that can't wait for as many
    /// replicas as it wants. Returns nothing if it is to be judged like any other.
    pub(in crate::lock) fn see_to_replicas(
        &mut self,
        turn: &mut Turn<'_>,
        (names, parts): (&[NameRef<'_>], &[Part<'_>]),
        request: &Request<'_>,
    ) -> Result<Option<Acquired>, Refusal> {
        let (wanted, is_try) = (request.replicas, request.patience == Patience::Try);
        let are_held = parts.iter().all(|part| matches!(part.fit, Fit::Held { .. }));
        let pending = names.iter().find_map(|&name| {
            let former = self.holds.former(name, request.terms.owner)?;
            Some((name, self.offers.pending.of(&former.entry)?.0))
        });
        if let Some((name, ticket)) = pending {
            let waiter = self.waiting.waits.get(ticket);
            let joins = are_held && waiter.is_some_and(|waiter| waiter.is_for(names));
            // It may not be possible to block its client.
            if is_try && wanted == 0 {
                return Ok(Some(self.count_busy()));
            } else if !joins {
                return Err(Refusal::Unheard(name.keep()));
            }
            let replaced = self.waiting.waits.replace_client(ticket);
            self.outbox.to_reply.extend(replaced);
            let handle = self.waiting.take_over(ticket, request, tell(turn, request));
            self.take_pending(turn, parts, request, ticket);
            return Ok(Some(Acquired::Waiting(handle)));
        }
        if (is_try || are_held) && turn.lacks_replicas(wanted) {
            count(&mut self.counts.replicas_refused, 1);
            let connected = turn.keys.replicas(turn.now);
            return Err(Refusal::NoReplicas { wanted, connected });
        }
        Ok(None)
    }

    /// Grants a request its locks, and has it wait for replicas.
    pub(in crate::lock) fn take_pending(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &[Part<'_>],
        request: &Request<'_>,
        ticket: Ticket,
    ) {
        let spare = self.limits.replica_timeout;
        let terms = Terms { spare, ..request.terms };
        let fence = self.take(turn, parts, &terms, Delivery::by(ticket));
        self.waiting.decide(ticket, State::Pending(fence));
        self.offers.pending.insert(ticket, request.replicas, turn.now, spare);
    }

    /// Does any grant wait for replicas?
    pub fn has_pending(&self) -> bool {
        !self.offers.pending.is_empty()
    }

    /// What replicas have; see [`PendingGrants::heard`](crate::lock::engine::pending::PendingGrants::heard).
    pub fn replicas_have(&mut self, sent: u64, acknowledged: Vec<u64>) -> bool {
        self.offers.pending.heard(sent, acknowledged)
    }

    /// Does what is due for grants that wait for replicas.
    pub(in crate::lock) fn see_to_pending(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent()
            && let Some(ticket) = self.offers.pending.take_due(turn.now)
        {
            turn.budget.draw(GRANT);
            let Some(&pending) = self.offers.pending.get(ticket) else {
                continue;
            };
            match self.waiting.waits.get(ticket).map(|waiter| (waiter.state(), waiter)) {
                Some((State::Pending(fence), waiter)) => {
                    let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
                    let until = turn.now.plus(waiter.ttl);
                    let offered = self.holds_pending(turn, ticket, (&names, &owner, fence));
                    self.judge_pending(turn, (ticket, pending), (&owner, offered), until);
                }
                _ => _ = self.offers.pending.remove(ticket),
            }
        }
    }

    /// The holds that this pending grant offers; none if its owner does not hold all of its locks any more.
    fn holds_pending<'n>(
        &mut self,
        turn: &mut Turn<'_>,
        ticket: Ticket,
        (names, owner, fence): (&'n [Name], &[u8], u64),
    ) -> Option<Offered<'n>> {
        let mut offered = Vec::new();
        for name in names.iter().map(Name::borrow) {
            self.meet(turn, name);
            let (hold, _) = self.holds.hold_of(turn, name, owner).ok()??;
            let entry = self.holds.entry(name, owner, hold);
            let entry = entry.filter(|entry| entry.fence() == Some(fence))?;
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
        let Some(offered) = offered else {
            return self.outcomes().end_wait(ticket, State::Withdrawn);
        };
        if pending.is_acknowledged {
            let waited = turn.now.micros().saturating_sub(pending.since.micros());
            count(&mut self.counts.replicated, 1);
            self.counts.replica_waits.add(waited);
            self.outcomes().confirm_pending(ticket);
            for (name, hold, _) in offered {
                // Without that it lasts for longer than it has to.
                if turn.keys.is_writable() && self.may_write(turn, name) {
                    if hold == Hold::Shared {
                        let lost = self.holds.make_room(turn, name);
                        self.record_ended(turn, name, lost);
                    }
                    turn.prolong(name, owner, hold, until);
                    self.holds.set_end(name, owner, hold, until, turn.now);
                    self.settle_queue(turn, name);
                }
            }
        } else if pending.deadline <= turn.now.ms() {
            for (name, _, entry) in offered {
                let delivery = Delivery::UNACKNOWLEDGED;
                self.holds.ledger(name.db).set(name.key, owner, Entry { delivery, ..entry });
                let given_back = Return { name: name.keep(), owner: Rc::clone(owner) };
                self.offers.returns.insert((0, given_back));
            }
            count(&mut self.counts.replicas_refused, 1);
            self.outcomes().end_wait(ticket, State::NoReplicas(pending.replicas));
        }
    }
}
