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

use std::fmt;

use crate::lock::words::Ticket;

/// Whether an owner has been told of a grant, or may still be: the request that it is offered to, or one of three numbers
/// that are no ticket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Delivery(Ticket);

impl Delivery {
    /// The owner knows: it was told, or another client has written the hold in its name.
    pub const TOLD: Self = Self(Ticket::MAX);

    /// No client knows, and none will.
    pub const UNDELIVERED: Self = Self(Ticket::MIN);

    /// The same, and too few replicas have acknowledged the grant.
    pub const UNACKNOWLEDGED: Self = Self(Ticket::MAX - 1);

    /// This waiter or place may still tell the owner.
    pub fn by(request: Ticket) -> Self {
        Self(request)
    }

    /// What becomes of holds that were offered to a request when it ends, and its owner has heard of them or not; or would
    /// have had to wait for replicas.
    pub fn at_the_end(heard: bool, waits_for_replicas: bool) -> Self {
        match heard {
            true => Self::TOLD,
            false if waits_for_replicas => Self::UNACKNOWLEDGED,
            false => Self::UNDELIVERED,
        }
    }

    pub fn is_told(self) -> bool {
        self == Self::TOLD
    }

    /// Has no client been told, and is no request left that would tell one?
    pub fn is_undelivered(self) -> bool {
        self == Self::UNDELIVERED || self.is_unacknowledged()
    }

    pub fn is_unacknowledged(self) -> bool {
        self == Self::UNACKNOWLEDGED
    }

    /// The request that may still tell the owner.
    pub fn offered_to(self) -> Option<Ticket> {
        (!self.is_told() && !self.is_undelivered()).then_some(self.0)
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offered_to() {
            Some(ticket) => write!(f, "offered to {ticket}"),
            None => f.write_str(if self.is_told() { "told" } else { "undelivered" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_told_or_unheard_or_offered_to_one_request() {
        let all = [Delivery::TOLD, Delivery::UNDELIVERED, Delivery::by(1), Delivery::by(7)];
        let offered = all.map(Delivery::offered_to);
        assert_eq!(offered, [None, None, Some(1), Some(7)]);
        assert!(all[0].is_told() && all[1..].iter().all(|one| !one.is_told()));
        assert!(all.iter().filter(|one| one.is_undelivered()).eq([&Delivery::UNDELIVERED]));
    }
}
