//! Replies and events that the core has decided and the shell has yet to fetch.

use std::collections::VecDeque;
use std::rc::Rc;

use super::name::Name;
use super::queue::ticket::Ticket;
use super::request::Asker;
use super::time::Ms;

/// A hold that expired while other owners waited for the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lapse {
    /// The lock.
    pub name: Name,
    /// The owner that held it.
    pub owner: Rc<[u8]>,
}

/// A message to publish, which tells the owner of a place to ask again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel on which it is published.
    pub channel: Rc<[u8]>,
    /// The id by which the channel's places are found.
    pub id: u64,
    /// Its text.
    pub text: Box<[u8]>,
    /// The user on whose behalf it is published.
    pub asker: Rc<Asker>,
}

/// Replies and events that have not been fetched yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Waiters whose outcome is decided and whose clients must be replied to.
    pub to_reply: Vec<Ticket>,
    /// How long requests that were granted have waited, in milliseconds.
    pub waited: Vec<Ms>,
    /// Holds that expired while other owners waited.
    pub lapsed: Vec<Lapse>,
    /// Locks whose holds have expired: each is announced in the next tick.
    pub expired: VecDeque<Name>,
}

impl Outbox {
    /// Returns how many entries there are in all lists together.
    pub fn len(&self) -> usize {
        let parts = [
            self.to_reply.len(),
            self.waited.len(),
            self.lapsed.len(),
            self.expired.len(),
        ];
        parts.into_iter().sum()
    }

    /// Is there nothing?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
