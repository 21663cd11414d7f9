//! Who waits for how much, and until when.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use crate::lock::hashing::Keyed;
use crate::lock::queue::ticket::Ticket;
use crate::lock::time::Ms;

/// All that wait, whatever they wait for.
#[derive(Debug)]
pub struct Waits {
    /// Those who wait.
    pub waiting: BTreeSet<Ticket>,
    /// In how many queues they stand.
    pub places: usize,
    /// What each owner waits for.
    pub by_owner: HashMap<Rc<[u8]>, OwnerWaits, Keyed>,
    /// When whose time is up.
    pub times_up: BTreeSet<(Ms, Ticket)>,
    /// Whoever waits by this ticket or an earlier one is to be sent away.
    pub sent_away_to: Ticket,
    /// The last ticket that was drawn.
    last_ticket: Ticket,
}

impl Waits {
    /// Nobody waits.
    pub fn new(keyed: Keyed) -> Self {
        Self {
            waiting: BTreeSet::new(),
            places: 0,
            by_owner: HashMap::with_hasher(keyed),
            times_up: BTreeSet::new(),
            sent_away_to: 0,
            last_ticket: 0,
        }
    }

    /// The ticket of the next to come.
    pub fn draw_ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.saturating_add(1);
        self.last_ticket
    }

    /// All who wait now are to be sent away.
    pub fn send_all_away(&mut self) {
        self.sent_away_to = self.last_ticket;
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
