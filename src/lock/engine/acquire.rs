//! Acquiring: a request is granted its locks, or waits for them.

use crate::lock::engine::fit::{Fit, Part};
use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::News;
use crate::lock::turn::Turn;
use crate::lock::words::{Acquired, NameRef, NotALock, Patience, Refusal, Request};

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
        if let Patience::Place(lease) = request.patience {
            // Where no client waits, a free lock is granted at once, and needs no place.
            if let (&[name], false) = (names, self.waiting.has_queues())
                && let fit @ Fit::Open { keeps: None } =
                    self.fit(turn, name, request.terms.owner, request.terms.mode, true)?
            {
                return self.take_or_wait(turn, &[Part { name, fit }], request);
            }
            return self.ask(turn, names, request, &lease);
        }
        for &name in names {
            self.settle_queue(turn, name);
        }
        if let &[name] = names {
            let in_turn = self.waiting.nothing_waits_for(name);
            let fit = self.fit(turn, name, request.terms.owner, request.terms.mode, in_turn)?;
            return self.take_or_wait(turn, &[Part { name, fit }], request);
        }
        let parts = self.parts(turn, names, request)?;
        self.take_or_wait(turn, &parts, request)
    }

    /// How each of the locks fits this request.
    pub(in crate::lock) fn parts<'n>(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'n>],
        request: &Request<'_>,
    ) -> Result<Vec<Part<'n>>, NotALock> {
        let mut parts = Vec::with_capacity(names.len());
        for &name in names {
            let in_turn = self.waiting.nothing_waits_for(name);
            let fit = self.fit(turn, name, request.terms.owner, request.terms.mode, in_turn)?;
            parts.push(Part { name, fit });
        }
        Ok(parts)
    }

    #[inline]
    pub(in crate::lock) fn take_or_wait(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &[Part<'_>],
        request: &Request<'_>,
    ) -> Result<Acquired, Refusal> {
        // An owner that gets more while it waits for another lock may close a circle that no search has seen.
        let is_upgrade = parts.iter().any(|part| part.fit.is_upgrade());
        let is_asked = |name: NameRef<'_>| parts.iter().any(|part| part.name == name);
        let is_held_up =
            is_upgrade && self.waiting.waits_beside(request.terms.owner, is_asked, turn.now);
        if is_held_up || parts.iter().any(|part| part.fit.is_shut()) {
            if is_upgrade && request.patience != Patience::Try {
                return Err(Refusal::NoUpgrade);
            }
            for part in parts {
                if part.fit.is_shut() {
                    self.adopt_orphan(turn, part.name);
                }
            }
            let may_wait = matches!(request.patience, Patience::Until(_) | Patience::Forever)
                && !self.limits.drain;
            if !may_wait {
                return Ok(self.count_busy());
            }
            return (self.enroll(turn, parts, request, None)).map(Acquired::Waiting);
        }
        let fence = self.take(turn, parts, &request.terms, News::Told);
        // Other requests of this owner may wait for what it holds now, and the hold may end at
        // another time than the queue's alarm is set for.
        for part in parts {
            self.settle_queue(turn, part.name);
        }
        Ok(Acquired::Held(fence))
    }
}
