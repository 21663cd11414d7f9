//! The line before one lock: who waits, in which order.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use super::time::Ms;
use super::waiter::Ticket;

/// The waiters of one lock. A line that has no waiters does not exist.
#[derive(Debug, Default)]
pub struct Line {
    /// In the order of arrival: that of their tickets.
    order: BTreeSet<Ticket>,
    /// The same by owner, so that a hand-over costs no walk through the line.
    by_owner: HashMap<Rc<[u8]>, BTreeSet<Ticket>>,
    /// When the lock is to be looked at again: its alarm.
    pub alarm: Option<Ms>,
    /// How often in a row the server would not let us grant.
    pub refusals: u32,
}

impl Line {
    /// A newcomer, at the end.
    pub fn join(&mut self, ticket: Ticket, owner: &Rc<[u8]>) {
        self.order.insert(ticket);
        self.by_owner
            .entry(Rc::clone(owner))
            .or_default()
            .insert(ticket);
    }

    /// Somebody leaves, from wherever they stand.
    pub fn leave(&mut self, ticket: Ticket, owner: &Rc<[u8]>) {
        self.order.remove(&ticket);
        if let Some(tickets) = self.by_owner.get_mut(owner) {
            tickets.remove(&ticket);
            if tickets.is_empty() {
                self.by_owner.remove(owner);
            }
        }
    }

    /// Who came first.
    pub fn first(&self) -> Option<Ticket> {
        self.order.first().copied()
    }

    /// Who of this owner's waiters came first.
    pub fn first_of(&self, owner: &[u8]) -> Option<Ticket> {
        self.by_owner.get(owner)?.first().copied()
    }

    /// All, in the order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = Ticket> {
        self.order.iter().copied()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Does nobody wait any more?
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
