//! All waiters, by their tickets.

use crate::lock::hashing::ByNumber;
use crate::lock::room::give_back_room;
use crate::lock::waiting::queue::order::Order;
use crate::lock::waiting::waits::Ticket;
use crate::lock::waiting::waits::waiter::Waiter;

/// All waiters, by their tickets. Those with a blocked client are in a hash table: a server has a few thousand
/// clients. Places are not, because there may be a million, and a hash table that grows is moved as a whole.
#[derive(Debug, Default)]
pub struct Waiters {
    with_client: ByNumber<Waiter>,
    places: Order<(Ticket, Box<Waiter>)>,
}

impl Waiters {
    #[inline]
    pub fn get(&self, ticket: Ticket) -> Option<&Waiter> {
        let waiter = self.with_client.get(&ticket);
        waiter.or_else(|| self.places.get(ticket).map(|(_, place)| &**place))
    }

    #[inline]
    pub fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Waiter> {
        let waiter = self.with_client.get_mut(&ticket);
        waiter.or_else(|| self.places.get_mut(ticket).map(|(_, place)| &mut **place))
    }

    pub fn insert(&mut self, ticket: Ticket, waiter: Waiter) {
        if waiter.place().is_some() {
            self.places.insert((ticket, Box::new(waiter)));
        } else {
            self.with_client.insert(ticket, waiter);
        }
    }

    /// Shrinks the hash table if it was once much larger.
    pub fn remove(&mut self, ticket: Ticket) -> Option<Waiter> {
        let waiter = self.with_client.remove(&ticket);
        give_back_room!(self.with_client);
        waiter.or_else(|| self.places.remove(ticket).map(|(_, place)| *place))
    }

    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// The first place from this ticket on.
    pub fn next_place(&self, from: Ticket) -> Option<Ticket> {
        self.places.from(from).next()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.with_client.is_empty() && self.places.is_empty()
    }

    /// How many waiters there are, including those that have been decided and have not ended.
    pub fn len(&self) -> usize {
        self.with_client.len().saturating_add(self.places.len())
    }
}

#[cfg(test)]
impl Waiters {
    pub fn tickets(&self) -> impl Iterator<Item = Ticket> {
        self.with_client.keys().copied().chain(self.places.iter())
    }
}
