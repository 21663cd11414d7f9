//! What one owner waits for.

use crate::lock::queue::ticket::Ticket;
use std::collections::BTreeSet;

/// What one owner waits for.
#[derive(Debug, Default)]
pub struct OwnerWaits {
    /// By which requests.
    pub tickets: BTreeSet<Ticket>,
    /// In how many queues these stand.
    pub places: usize,
}

//EXTRA use super::queue::ticket::Ticket;
