//! Whether the owner of a hold has been told of its grant.
//!
//! | state | what may come next |
//! |---|---|
//! | told | nothing: an owner that has been told may act on it |
//! | offered to a request: its reply, or the claim of a place, may still tell the owner | told, when it has, or when another reply says the same; undelivered, when the request has ended without that |
//! | undelivered, or not acknowledged by enough replicas | the hold is given back; or told, if another reply says so first |
//!
//! A hold is offered to one request at a time: an owner waits by one, and not for a lock that it was granted and has not
//! heard of.

use crate::lock::holds::ledger::u56::U56;
use crate::lock::words::Ticket;

/// Whether an owner has been told of a grant, or may still be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The owner knows: it was told, or another client has written the hold in its name.
    Told,
    /// This waiter or place may still tell the owner.
    Offered(U56),
    /// No client knows, and none will.
    Undelivered,
    /// The same, and too few replicas have acknowledged the grant.
    Unacknowledged,
}

impl Delivery {
    pub fn by(request: Ticket) -> Self {
        Self::Offered(request.into())
    }

    /// What becomes of holds that were offered to a request when it ends, and its owner has heard of them or not; or would
    /// have had to wait for replicas.
    pub fn at_the_end(heard: bool, waits_for_replicas: bool) -> Self {
        match heard {
            true => Self::Told,
            false if waits_for_replicas => Self::Unacknowledged,
            false => Self::Undelivered,
        }
    }

    pub fn is_told(self) -> bool {
        self == Self::Told
    }

    /// Has no client been told, and is no request left that would tell one?
    pub fn is_undelivered(self) -> bool {
        matches!(self, Self::Undelivered | Self::Unacknowledged)
    }

    /// The request that may still tell the owner.
    pub fn offered_to(self) -> Option<Ticket> {
        if let Self::Offered(request) = self { Some(request.get()) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_told_or_unheard_or_offered_to_one_request() {
        let all = [Delivery::Told, Delivery::Undelivered, Delivery::by(1), Delivery::by(7)];
        let offered = all.map(Delivery::offered_to);
        assert_eq!(offered, [None, None, Some(1), Some(7)]);
        assert!(all[0].is_told() && all[1..].iter().all(|one| !one.is_told()));
        assert!(all.iter().filter(|one| one.is_undelivered()).eq([&Delivery::Undelivered]));
    }
}
