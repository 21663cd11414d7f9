//! Which requests wait, in how many queues, and until when.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lock::waiting::queue::order::Order;
use crate::lock::words::Ms;

/// A waiter's number. Tickets are drawn in the order of arrival, over all locks.
pub type Ticket = u64;

/// The waiting requests of all locks.
#[derive(Debug, Default)]
pub struct Waits {
    /// Waiting requests with a client.
    pub waiting: Order<Ticket>,
    /// How many requests wait without a client: places that do not sleep.
    pub waiting_places: usize,
    /// How many entries of waiting requests there are in all queues: one for each of their locks.
    pub entries: usize,
    /// How many entries of sleeping places there are: one for each of their locks.
    pub entries_asleep: usize,
    /// All requests and all places until they end, by the prints of their owners.
    pub by_owner: Order<(u64, Ticket)>,
    /// When each waiter times out, and when the lease of each place ends.
    pub times_up: Order<(Ms, Ticket)>,
    /// The server's error for waiters whose users have lost the right to the locks, until the client is told.
    pub denials: BTreeMap<Ticket, Rc<str>>,
    /// Waiters with this ticket or an earlier one are to be sent away.
    pub sent_away_to: Ticket,
    last_ticket: Ticket,
}

impl Waits {
    /// The requests and the places of an owner with this print.
    pub fn of(&self, print: u64) -> impl Iterator<Item = Ticket> + use<'_> {
        let its = self.by_owner.from((print, Ticket::MIN));
        its.take_while(move |&(of, _)| of == print).map(|(_, ticket)| ticket)
    }

    /// A waiting request is a place from now on, or has a client: it was the other before.
    pub fn count_kind(&mut self, ticket: Ticket, is_place: bool) {
        if is_place {
            self.waiting.remove(ticket);
            self.waiting_places = self.waiting_places.saturating_add(1);
        } else {
            self.waiting_places = self.waiting_places.saturating_sub(1);
            self.waiting.insert(ticket);
        }
    }

    pub fn last_ticket(&self) -> Ticket {
        self.last_ticket
    }

    pub fn draw_ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.saturating_add(1);
        self.last_ticket
    }

    #[cfg(test)]
    pub fn draw_tickets_after(&mut self, ticket: Ticket) {
        self.last_ticket = ticket;
    }
}
