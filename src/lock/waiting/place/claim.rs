//! How long the owner of a granted place has to claim it, and which grants have not been claimed.

use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::Notice;
use crate::lock::waiting::queue::Waiter;
use crate::lock::words::{Ms, Now, Terms, Ticket};

impl Waiting {
    /// Begins to wait until this time for the claim of a place that has been granted all its locks, and notifies its
    /// owner.
    pub fn begin_claim(&mut self, ticket: Ticket, ends: Ms) {
        let waiter = self.waiters.get_mut(&ticket);
        let Some(place) = waiter.and_then(|waiter| waiter.place.as_deref_mut()) else {
            return;
        };
        place.claim_ends = ends;
        self.places.claims.insert((ends, ticket));
        if place.notify.is_some() {
            self.places.messages.push_back(Notice::Granted(ticket));
        }
    }

    /// Gives the owner of a granted place until this time to claim it: what follows from its not being claimed
    /// can't be written now.
    pub fn postpone_claim(&mut self, ticket: Ticket, again: Ms) {
        if let Some(waiter) = self.waiters.get_mut(&ticket)
            && let Some(place) = &mut waiter.place
        {
            let before = std::mem::replace(&mut place.claim_ends, again);
            self.places.claims.remove(&(before, ticket));
            self.places.claims.insert((again, ticket));
        }
    }

    /// No client has received the message that it is this place's turn: its claim ends at once.
    pub fn pass_by(&mut self, ticket: Ticket, now: Now) {
        let waiter = self.waiters.get_mut(&ticket).filter(|waiter| waiter.is_granted());
        let place = waiter.and_then(|waiter| waiter.place.as_deref_mut());
        if let Some(notification) = place.and_then(|place| place.notify.as_mut()) {
            notification.is_unheard = true;
            self.postpone_claim(ticket, now.ms().saturating_sub(1));
        }
    }

    /// Returns the terms on which this waiter is granted its locks. A place has them only for the time in which to
    /// claim them: to the end of its lease, and at most `lock.claim-time` if a message tells its owner of the grant.
    pub fn terms_of<'a>(
        &self,
        waiter: &Waiter,
        owner: &'a [u8],
        claim_time: Ms,
        now: Now,
    ) -> Terms<'a> {
        let ttl = waiter.place.as_ref().map_or(waiter.ttl, |place| {
            let lease_ends = self.places.end_of(waiter.ends, place.length);
            let claim_ends = self.places.end_of(now.plus(claim_time), claim_time);
            let claim_ends = place.notify.as_ref().map_or(lease_ends, |_| claim_ends);
            lease_ends.min(claim_ends).saturating_sub(now.ms()).max(1)
        });
        waiter.terms(owner, ttl)
    }
}
