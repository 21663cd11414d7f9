//! Deadlocks: owners of whom each waits for the next, and the last for the first.
//!
//! Only a request that begins to wait can close a deadlock, or a place that wakes. So it is looked for then, and a
//! request that would close one is refused.
//!
//! An owner waits by one request, and no upgrade waits. So it is plain what a request needs: in each of its queues all
//! that stand before it must be served, and fewer than so many others may hold the lock.
//!
//! 1. [`Graph`] goes from the request to all that it waits for, directly or through others. Where no way leads back
//!    there is no deadlock. Where one does, and each on it has to wait for the next whatever all others do, that is one.
//! 2. If it is not as certain as that, all requests that were reached begin as stuck, and each whose needs are met by
//!    those that are not stuck is taken out, again and again ([`reduce`]). What is left waits indefinitely.
//! 3. If the request that asks is left, the [shortest way](way) over those that are left back to it is the deadlock. If
//!    there is none it only waits behind one of others, which another client's write may have made, and which a ttl
//!    will end.
//!
//! All of this takes so many [`Steps`] at most, and so do all searches together in some time. A request whose search
//! would be longer is refused, because it can't be told whether its wait would end. To a search an owner is another
//! one in each database, since it may wait in each.

mod graph;
mod reduce;
mod snapshot;
pub mod steps;
mod way;

pub use snapshot::{Holders, Snapshot};

use std::rc::Rc;

use crate::lock::deadlock::graph::Graph;
use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::words::{Name, Ticket};

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

impl Snapshot<'_> {
    /// The deadlock that this request closes, which has just come or woken.
    pub fn deadlock_of(self, asks: Ticket, steps: &mut Steps) -> Result<Option<Deadlock>, TooLong> {
        let mut graph = Graph::new(self);
        match graph.reach_all(asks, steps)? {
            None => Ok(None),
            Some(edge) if edge.is_certain => Ok(graph.in_words(edge)),
            Some(_) if graph.reduce(steps)? => graph.way_back(steps),
            Some(_) => Ok(None),
        }
    }
}
