//! How long the owner of a granted place has to claim it, and which grants have not been claimed.

use crate::lock::waiting::place::{Place, Places};
use crate::lock::waiting::waits::waiter::Waiter;
use crate::lock::words::{Ms, Now, Terms, Ticket};

impl Places {
    /// Gives the owner of a granted place until this time to claim it.
    pub fn claim_by(&mut self, ticket: Ticket, place: &mut Place, ends: Ms) {
        self.end_claim(ticket, place);
        place.claim_ends = ends;
        self.claims.insert((ends, ticket));
    }

    /// The grant of this place has been claimed, or has ended without that.
    pub fn end_claim(&mut self, ticket: Ticket, place: &Place) {
        self.claims.remove(&(place.claim_ends, ticket));
    }

    /// A place that has not claimed its grant in time.
    pub fn overdue_claim(&self, now: Now) -> Option<Ticket> {
        let first = self.claims.first();
        first.filter(|&&(end, _)| end < now.ms()).map(|&(_, ticket)| ticket)
    }

    /// When the first grant will be overdue that is not claimed.
    pub fn next_claim(&self) -> Option<Ms> {
        self.claims.first().map(|&(end, _)| end.saturating_add(1))
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
        let ttl = waiter.place().map_or(waiter.ttl, |place| {
            let lease_ends = self.end_of(waiter.ends, place.length);
            let claim_ends = self.end_of(now.plus(claim_time), claim_time);
            let claim_ends = place.notify.as_ref().map_or(lease_ends, |_| claim_ends);
            lease_ends.min(claim_ends).saturating_sub(now.ms()).max(1)
        });
        waiter.terms(owner, ttl)
    }
}
