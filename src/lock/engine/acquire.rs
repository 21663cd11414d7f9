//! Acquiring: a request is granted its locks, or waits for them.

use std::ops::ControlFlow;

use crate::lock::engine::fit::Part;
use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::Delivery;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::waiting::queue::Queue;
use crate::lock::waiting::waits::waiter::Waiter;
use crate::lock::words::{
    Acquired, Group, Name, NameRef, NotALock, Patience, Refusal, Request, Ticket,
};

/// A request that is handled now, for these locks; no name occurs twice.
pub struct Acquire<'l, 'k> {
    pub(super) locks: &'l mut Locks,
    pub(super) turn: &'l mut Turn<'k>,
    pub(super) names: &'l [NameRef<'l>],
    pub(super) request: &'l Request<'l>,
    /// The group of its owner, if it has FAIR.
    pub(super) group: Option<Group>,
    /// The wait that its owner has already.
    pub(super) own: Option<Ticket>,
}

impl Locks {
    /// A request for all of these locks or none, of which no name occurs twice: to be handled at once.
    #[inline]
    pub fn asks<'l, 'k>(
        &'l mut self,
        turn: &'l mut Turn<'k>,
        names: &'l [NameRef<'l>],
        request: &'l Request<'l>,
    ) -> Acquire<'l, 'k> {
        let group = self.waiting.waits.fair_group(request.terms.owner, request.terms.mode);
        Acquire { locks: self, turn, names, request, group, own: None }
    }
}

impl<'l> Acquire<'l, '_> {
    /// `LOCK.ACQUIRE` and `LOCK.MACQUIRE`.
    #[inline(always)]
    pub fn acquire(&mut self) -> Result<Acquired, Refusal> {
        let names = self.names;
        if self.locks.holds.wall.is_stepped(self.turn.now) {
            names.iter().for_each(|&name| self.locks.meet(self.turn, name));
        }
        if !self.locks.waiting.waits.is_empty() {
            self.own = self.settle_own_wait();
            names.iter().for_each(|&name| self.locks.settle_queue(self.turn, name));
            let waits = &self.locks.waiting.waits;
            self.own = self.own.filter(|&own| waits.get(own).is_some_and(Waiter::has_not_ended));
            if self.own.is_some() || self.group.is_some() {
                self.locks.outcomes().end_overdue(self.turn);
            }
        }
        if let &[name] = names {
            let part = self.part(name)?;
            return self.take_or_wait([part]);
        }
        // From the last to the first: that is written first, and its key is still open then.
        let mut parts = Vec::with_capacity(names.len());
        for &name in names.iter().rev() {
            parts.push(self.part(name)?);
        }
        parts.reverse();
        self.take_or_wait(parts)
    }

    /// How this lock fits the request: as if its owner's wait were in no queue.
    #[inline(always)]
    fn part(&mut self, name: NameRef<'l>) -> Result<Part<'l>, NotALock> {
        let terms = &self.request.terms;
        let is_first = |queue: &Queue| queue.in_the_way(self.group, self.own).is_none();
        let in_turn = self.locks.waiting.queues.get(name).is_none_or(is_first);
        let opened = self.locks.holds.open(self.turn, name, terms.owner);
        let in_turn =
            in_turn && self.locks.has_room_for_group(self.turn, (name, opened.lock), terms);
        self.locks.fit((name, opened), (terms.mode, in_turn), self.turn.now)
    }

    #[inline(always)]
    fn take_or_wait<'n>(
        &mut self,
        all: impl AsRef<[Part<'n>]> + IntoIterator<Item = Part<'n>>,
    ) -> Result<Acquired, Refusal> {
        let (parts, &Request { patience, replicas, .. }) = (all.as_ref(), self.request);
        if replicas > 0 || !self.locks.waiting.pending.is_empty() {
            match self.see_to_replicas(parts)? {
                ControlFlow::Break(reply) => return Ok(reply),
                ControlFlow::Continue(None) => {}
                ControlFlow::Continue(joins) => return Ok(self.take_pending(all, joins)),
            }
        }
        let is_shut = parts.iter().any(Part::is_shut);
        let is_upgrade = parts.iter().any(Part::is_upgrade);
        let is_place = matches!(patience, Patience::Place(_));
        // An owner that gets more while it waits for another lock may close a circle that no search has seen.
        let is_held_up = is_upgrade && (is_place || is_shut || self.waits_beside());
        if is_held_up && patience != Patience::Try {
            return Err(Refusal::NoUpgrade);
        }
        if is_place && parts.iter().any(Part::is_held) && !parts.iter().all(Part::is_held) {
            return Err(self.undelivered(parts).unwrap_or(Refusal::HoldsSome));
        }
        let lacks = self.turn.lacks_replicas(replicas);
        if is_held_up || is_shut || lacks {
            for part in parts.iter().filter(|part| part.is_shut()) {
                self.locks.records(self.turn, part.name).adopt_orphan();
            }
            if patience == Patience::Try || self.locks.limits.drain {
                count(&mut self.locks.counts.busy, 1);
                return Ok(Acquired::Busy);
            }
            let waits = self.wait(parts)?;
            for &name in self.names.iter().filter(|_| lacks) {
                self.locks.waiting.queues.retry_later(name, self.turn.now);
            }
            return Ok(waits);
        }
        let acquired = match replicas {
            0 => {
                let terms = &self.request.terms;
                let fence = self.locks.take(self.turn, all, terms, Delivery::Told);
                let end = self.turn.now.plus(terms.ttl);
                self.locks.waiting.pending.tell_end(self.names, terms.owner, end);
                Acquired::Held(fence)
            }
            _ => self.take_pending(all, None),
        };
        if let Some(own) = self.own {
            self.locks.end_if_its_owner_goes_on(self.turn, own);
        }
        for &name in self.names {
            // The wait of this owner may be for what it holds now: it is served if the holders are read anew.
            let queues = &mut self.locks.waiting.queues;
            if let Some(own) = self.own
                && queues.get(name).is_some_and(|queue| queue.contains(own))
            {
                queues.touch(name);
            }
            // The hold may end at another time than the queue's alarm is set for.
            self.locks.settle_queue(self.turn, name);
        }
        Ok(acquired)
    }

    /// Does the owner wait for any lock but these?
    fn waits_beside(&self) -> bool {
        let is_asked = |name: &Name| self.names.contains(&name.borrow());
        let own = self.own.and_then(|own| self.locks.waiting.waits.get(own));
        own.is_some_and(|own| !own.names.iter().all(is_asked))
    }
}
