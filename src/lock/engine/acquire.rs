//! Acquiring: a request is granted its locks, or waits for them.

use crate::lock::engine::fit::{Fit, Part};
use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::Delivery;
use crate::lock::turn::Turn;
use crate::lock::waiting::waits::waiter::Waiter;
use crate::lock::words::{Acquired, Name, NameRef, NotALock, Patience, Refusal, Request, Ticket};

impl Locks {
    /// `LOCK.ACQUIRE` and `LOCK.MACQUIRE`: grants all of these locks or none. No name occurs twice.
    pub fn acquire(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        request: &Request<'_>,
    ) -> Result<Acquired, Refusal> {
        if self.holds.wall().is_stepped(turn.now) {
            for &name in names {
                self.meet(turn, name);
            }
        }
        let mut own = None;
        let group = self.waiting.waits.fair_group(request.terms.owner, request.terms.mode);
        if !self.waiting.waits.is_empty() {
            own = self.settle_own_wait(turn, names, request);
            for &name in names {
                self.settle_queue(turn, name);
            }
            own = own.filter(|&own| self.waiting.waits.get(own).is_some_and(Waiter::has_not_ended));
            if own.is_some() || group.is_some() {
                let ends = |&name| self.outcomes().end_overdue_before(turn, name, (group, own));
                names.iter().for_each(ends);
            }
        }
        if let &[name] = names {
            let in_turn = self.waiting.queues.would_come_first(name, group, own);
            let fit = self.fit(turn, name, request.terms.owner, request.terms.mode, in_turn)?;
            return self.take_or_wait(turn, names, &[Part { name, fit }], request, own);
        }
        let parts = self.parts(turn, names, request, own)?;
        self.take_or_wait(turn, names, &parts, request, own)
    }

    /// How each of the locks fits this request, whose owner waits by `own`: as if that were in no queue.
    fn parts<'n>(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'n>],
        request: &Request<'_>,
        own: Option<Ticket>,
    ) -> Result<Vec<Part<'n>>, NotALock> {
        let mut parts = Vec::with_capacity(names.len());
        for &name in names {
            let in_turn = self.waiting.queues.would_come_first(name, None, own);
            let fit = self.fit(turn, name, request.terms.owner, request.terms.mode, in_turn)?;
            parts.push(Part { name, fit });
        }
        Ok(parts)
    }

    #[inline]
    fn take_or_wait(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        parts: &[Part<'_>],
        request: &Request<'_>,
        own: Option<Ticket>,
    ) -> Result<Acquired, Refusal> {
        let is_shut = parts.iter().any(|part| part.fit.is_shut());
        let is_upgrade = parts.iter().any(|part| part.fit.is_upgrade());
        let is_place = matches!(request.patience, Patience::Place(_));
        let is_held = |part: &Part<'_>| matches!(part.fit, Fit::Held { .. });
        // An owner that gets more while it waits for another lock may close a circle that no search has seen.
        let is_held_up = is_upgrade && (is_place || is_shut || self.waits_beside(own, parts));
        if is_held_up && request.patience != Patience::Try {
            return Err(Refusal::NoUpgrade);
        }
        if is_place && parts.iter().any(is_held) && !parts.iter().all(is_held) {
            return Err(self.unheard(parts, request).unwrap_or(Refusal::HoldsSome));
        }
        if is_held_up || is_shut {
            for part in parts {
                if part.fit.is_shut() {
                    self.adopt_orphan(turn, part.name);
                }
            }
            if request.patience == Patience::Try || self.limits.drain {
                return Ok(self.count_busy());
            }
            return self.wait(turn, (names, parts), request, own);
        }
        let fence = self.take(turn, parts, &request.terms, Delivery::TOLD);
        if let Some(own) = own {
            self.end_if_its_owner_goes_on(turn, own);
        }
        for part in parts {
            // The wait of this owner may be for what it holds now: it is served if the holders are read anew.
            if let Some(own) = own
                && let Some(queue) = self.waiting.queues.get_mut(part.name)
                && queue.contains(own)
            {
                queue.touch();
            }
            // The hold may end at another time than the queue's alarm is set for.
            self.settle_queue(turn, part.name);
        }
        Ok(Acquired::Held(fence))
    }

    /// Does the owner wait, by this request of its, for any lock but these?
    fn waits_beside(&self, own: Option<Ticket>, parts: &[Part<'_>]) -> bool {
        let is_asked = |name: &Name| parts.iter().any(|part| part.name == name.borrow());
        let own = own.and_then(|own| self.waiting.waits.get(own));
        own.is_some_and(|own| !own.names.iter().all(is_asked))
    }
}
