//! Who waits for how much, and until when.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use crate::lock::hashing::Keyed;
use crate::lock::queue::ticket::Ticket;
use crate::lock::time::Ms;

/// All that wait, whatever they wait for.
#[derive(Debug)]
pub struct Waits {
    /// How many wait.
    pub waiting: usize,
    /// In how many queues they stand.
    pub places: usize,
    /// What each owner waits for.
    pub by_owner: HashMap<Rc<[u8]>, OwnerWaits, Keyed>,
    /// When whose time is up.
    pub times_up: BTreeSet<(Ms, Ticket)>,
    last_ticket: Ticket,
}

impl Waits {
    /// Nobody waits.
    pub fn new(keyed: Keyed) -> Self {
        Self {
            waiting: 0,
            places: 0,
            by_owner: HashMap::with_hasher(keyed),
            times_up: BTreeSet::new(),
            last_ticket: 0,
        }
    }

    /// The ticket of the next to come.
    pub fn draw_ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.saturating_add(1);
        self.last_ticket
    }
}

/// What one owner waits for.
#[derive(Debug, Default)]
pub struct OwnerWaits {
    /// By which requests.
    pub tickets: BTreeSet<Ticket>,
    /// In how many queues these stand.
    pub places: usize,
}
