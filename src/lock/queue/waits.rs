//! Who waits for how much, and until when.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::lock::queue::order::Order;
use crate::lock::queue::ticket::Ticket;
use crate::lock::time::Ms;

/// All that wait, whatever they wait for.
#[derive(Debug, Default)]
pub struct Waits {
    /// Those who wait with a client.
    pub waiting: Order<Ticket>,
    /// How many wait without one.
    pub waiting_places: usize,
    /// In how many queues they stand.
    pub places: usize,
    /// All of them, and all places, by the prints of their owners.
    pub by_owner: Order<(u64, Ticket)>,
    /// When whose time is up.
    pub times_up: Order<(Ms, Ticket)>,
    /// What the server says of the rights of those that have been taken away, until it is told.
    pub denials: BTreeMap<Ticket, Rc<str>>,
    /// Those with a client that have been granted something and not been told, by the prints of their
    /// owners.
    untold: Order<(u64, Ticket)>,
    /// Whoever waits by this ticket or an earlier one is to be sent away.
    pub sent_away_to: Ticket,
    /// The last ticket that was drawn.
    last_ticket: Ticket,
}

impl Waits {
    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len().saturating_add(self.waiting_places)
    }

    /// The requests of an owner with this print.
    pub fn of(&self, print: u64) -> impl Iterator<Item = Ticket> + use<'_> {
        by(&self.by_owner, print)
    }

    /// Is there no request but those of one owner?
    pub fn are_of_one(&self) -> bool {
        let of = |of: Option<(u64, Ticket)>| of.map(|(print, _)| print);
        of(self.by_owner.first()) == of(self.by_owner.last())
    }

    /// Those of its requests that have been granted something, and whose clients have not been told.
    pub fn untold_of(&self, print: u64) -> impl Iterator<Item = Ticket> + use<'_> {
        by(&self.untold, print)
    }

    /// This request of an owner with this print has been granted something.
    pub fn is_untold(&mut self, print: u64, ticket: Ticket) {
        self.untold.insert((print, ticket));
    }

    /// Its client has been told, or will not be.
    pub fn is_told(&mut self, print: u64, ticket: Ticket) {
        self.untold.remove((print, ticket));
    }

    /// The ticket of the last who came.
    pub fn last_ticket(&self) -> Ticket {
        self.last_ticket
    }

    /// The ticket of the next to come.
    pub fn draw_ticket(&mut self) -> Ticket {
        self.last_ticket = self.last_ticket.saturating_add(1);
        self.last_ticket
    }

    /// Tickets are larger than this one from now on.
    #[cfg(test)]
    pub fn draw_tickets_after(&mut self, ticket: Ticket) {
        self.last_ticket = ticket;
    }

    /// All who wait now are to be sent away.
    pub fn send_all_away(&mut self) {
        self.sent_away_to = self.last_ticket;
    }
}

/// Those of an owner with this print.
fn by(all: &Order<(u64, Ticket)>, print: u64) -> impl Iterator<Item = Ticket> + use<'_> {
    let its = all.from((print, Ticket::MIN));
    its.take_while(move |&(of, _)| of == print)
        .map(|(_, ticket)| ticket)
}
