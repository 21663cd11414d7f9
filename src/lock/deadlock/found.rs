//! A deadlock that was found.

use std::rc::Rc;

use crate::lock::words::Name;

/// Owners of whom each waits for the next, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each of them, beginning with the one whose request closes the deadlock.
    pub links: Vec<Link>,
}

/// One of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub owner: Rc<[u8]>,
    pub name: Name,
    /// What the next of the deadlock has to do with it.
    pub next: Claim,
}

/// What an owner has to do with a lock that another waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Holds,
    /// It waits for that lock too, and comes first.
    ComesFirst,
}
