//! A deadlock that was found.

use std::rc::Rc;

use crate::lock::words::Name;

/// Owners of whom each waits for the next, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each of them, beginning with the one whose request closes the deadlock.
    pub links: Vec<Link>,
}

/// One owner in a deadlock, and how the next is in its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub owner: Rc<[u8]>,
    pub name: Name,
    /// How the next owner keeps the lock from this one.
    pub next: Claim,
}

/// What an owner has to do with a lock that another waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Holds,
    /// It waits for that lock too, and comes first.
    ComesFirst,
}
