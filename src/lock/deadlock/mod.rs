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

pub mod found;
mod graph;
mod reduce;
mod snapshot;
pub mod steps;
mod way;

pub use snapshot::{Holders, Snapshot};

use crate::lock::deadlock::found::Deadlock;
use crate::lock::deadlock::graph::Graph;
use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::words::Ticket;

impl Snapshot<'_> {
    /// The deadlock that this request closes, which has just come or woken.
    pub fn deadlock_of(self, asks: Ticket, steps: &mut Steps) -> Result<Option<Deadlock>, TooLong> {
        let mut graph = Graph::new(self, asks);
        match graph.reach_all(steps)? {
            None => Ok(None),
            Some(edge) if edge.is_certain => Ok(graph.in_words(edge)),
            Some(_) if graph.reduce(steps)? => graph.way_back(steps),
            Some(_) => Ok(None),
        }
    }
}
