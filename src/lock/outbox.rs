//! What others have still to hear of.

use std::collections::VecDeque;
use std::rc::Rc;

use super::name::Name;
use super::queue::ticket::Ticket;
use super::request::Asker;
use super::time::Ms;

/// A hold that ran out while others waited for the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lapse {
    /// The lock.
    pub name: Name,
    /// Who held it.
    pub owner: Rc<[u8]>,
}

/// A message to publish, which says that it is time to ask again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where.
    pub channel: Rc<[u8]>,
    /// What the channel's places are found by.
    pub id: u64,
    /// What it says.
    pub text: Box<[u8]>,
    /// On behalf of whom.
    pub asker: Rc<Asker>,
}

/// News that has not been fetched, or told.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Waiters whose outcome is decided, and whose clients wait for the reply.
    pub to_reply: Vec<Ticket>,
    /// How long those have waited who were granted something, in milliseconds.
    pub waited: Vec<Ms>,
    /// Holds that ran out while others waited.
    pub lapsed: Vec<Lapse>,
    /// Locks whose holds have run out: an event for each follows in the next tick.
    pub expired: VecDeque<Name>,
}

impl Outbox {
    /// How much there is.
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
