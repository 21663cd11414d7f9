//! All that wait, by their tickets.

use crate::lock::queue::order::Order;
use crate::lock::queue::ticket::{ByTicket, Ticket};
use crate::lock::queue::waiter::Waiter;
use crate::lock::room::give_back_room;

/// Whoever has a client is one of the few thousand that a server can have. Of places there may be a
/// million, and no table of so many is ever moved as a whole.
#[derive(Debug, Default)]
pub struct Waiters {
    with_client: ByTicket<Waiter>,
    places: Order<(Ticket, Box<Waiter>)>,
}

impl Waiters {
    /// This one.
    #[inline]
    pub fn get(&self, ticket: &Ticket) -> Option<&Waiter> {
        let waiter = self.with_client.get(ticket);
        waiter.or_else(|| self.places.get(*ticket).map(|(_, place)| &**place))
    }

    /// This one, to be changed.
    #[inline]
    pub fn get_mut(&mut self, ticket: &Ticket) -> Option<&mut Waiter> {
        let waiter = self.with_client.get_mut(ticket);
        waiter.or_else(|| self.places.get_mut(*ticket).map(|(_, place)| &mut **place))
    }

    /// One more.
    pub fn insert(&mut self, ticket: Ticket, waiter: Waiter) {
        if waiter.place.is_some() {
            self.places.insert((ticket, Box::new(waiter)));
        } else {
            self.with_client.insert(ticket, waiter);
        }
    }

    /// One less.
    pub fn remove(&mut self, ticket: &Ticket) -> Option<Waiter> {
        let waiter = self.with_client.remove(ticket);
        waiter.or_else(|| self.places.remove(*ticket).map(|(_, place)| *place))
    }

    /// How many places there are.
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Is any of them a place?
    #[inline]
    pub fn has_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// The first place from this ticket on.
    pub fn next_place(&self, from: Ticket) -> Option<Ticket> {
        self.places.from(from).next()
    }

    /// Does nobody wait?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.with_client.is_empty() && self.places.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.with_client.len().saturating_add(self.places.len())
    }

    /// Those that have a client.
    pub fn with_client(&mut self) -> impl Iterator<Item = (Ticket, &mut Waiter)> {
        let waiters = self.with_client.iter_mut();
        waiters.map(|(&ticket, waiter)| (ticket, waiter))
    }

    /// The tickets of all.
    #[cfg(test)]
    pub fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.with_client.keys().copied().chain(self.places.iter())
    }

    /// Shrinks what was much larger once.
    pub fn give_back_room(&mut self) {
        give_back_room(&mut self.with_client);
    }
}
