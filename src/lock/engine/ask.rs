//! Asking for a place, and asking again.

use crate::lock::engine::fit::{Fit, Part};
use crate::lock::engine::locks::Locks;
use crate::lock::turn::Turn;
use crate::lock::waiting::place::end::Ended;
use crate::lock::waiting::queue::Waiter;
use crate::lock::words::{Acquired, Lease, NameRef, Refusal, Request};

impl Locks {
    /// Handles a request for a place, new or not. Returns the grant, or how many come before the place.
    pub(in crate::lock) fn ask(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        request: &Request<'_>,
        lease: &Lease<'_>,
    ) -> Result<Acquired, Refusal> {
        let mut own = self.waiting.place_of(request.terms.owner, names);
        if let Some(ticket) = own
            && self.waiting.check_lease_is_over(ticket, turn.now)
        {
            let moved_up = self.lapse(ticket);
            self.waiting.settle_later(moved_up);
            own = None;
        }
        if let Some(ticket) = own
            && self.waiting.is_to_end(ticket)
        {
            let moved_up = self.end_place(ticket, Ended::Lost);
            self.waiting.settle_later(moved_up);
            own = None;
        }
        let same = own.filter(|&ticket| {
            let waiter = self.waiting.waiter(ticket);
            waiter.is_some_and(|waiter| waiter.mode == request.terms.mode)
        });
        if let Some(ticket) = own {
            self.undo_lost_grant(turn, ticket);
        }
        if let Some(ticket) = same {
            // The asker is needed to check its rights at the grant, which a granted place is past.
            let is_granted = (self.waiting.waiter(ticket)).is_some_and(Waiter::is_granted);
            let asker = (!is_granted).then(|| turn.keys.asker(lease.command));
            self.waiting.renew_lease(turn.now, ticket, request, lease, asker);
        }
        for &name in names {
            self.settle_queue(turn, name);
        }
        let parts = self.parts(turn, names, request)?;
        let all_held = (parts.iter()).all(|part| matches!(part.fit, Fit::Held { .. }));
        if parts.iter().any(|part| part.fit.is_upgrade()) {
            return Err(Refusal::NoUpgrade);
        }
        let has_some = |part: &Part<'_>| matches!(part.fit, Fit::Held { .. });
        if !all_held && parts.iter().any(has_some) {
            return Err(Refusal::HoldsSome);
        }
        if (parts.iter()).all(|part| matches!(part.fit, Fit::Held { .. } | Fit::Open { .. })) {
            return self.take_or_wait(turn, &parts, request);
        }
        if let Some(ticket) = same.filter(|&ticket| self.waiting.is_waiting(ticket)) {
            return Ok(Acquired::Place(self.waiting.before(ticket)));
        }
        for part in &parts {
            if part.fit.is_shut() {
                self.adopt_orphan(turn, part.name);
            }
        }
        if self.limits.drain {
            return Ok(self.count_busy());
        }
        // An owner that asks for another mode goes to the end, and keeps its old place until it is enrolled.
        let ticket = self.enroll(turn, &parts, request, own)?;
        self.waiting.renew_lease(turn.now, ticket, request, lease, None);
        if let Some(own) = own {
            let moved_up = self.end_place(own, Ended::ByItsOwner);
            turn.settling.add_moved_up(moved_up);
            self.settle_moved_up(turn);
        }
        if self.waiting.is_waiting(ticket) {
            return Ok(Acquired::Place(self.waiting.before(ticket)));
        }
        // It waits no more: only the old place was in its way, or in the way of another request of its owner.
        self.ask(turn, names, request, lease)
    }
}
