//! Replies and events that the core has decided and the shell has yet to fetch.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::lock::budget::REPLIES;
use crate::lock::room::keep_room;
use crate::lock::words::{Ms, Name, Ticket};

/// A hold that expired while other owners waited for the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lapse {
    pub name: Name,
    /// The owner that held it.
    pub owner: Rc<[u8]>,
}

/// Replies and events that have not been fetched yet.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Waiters whose outcome is decided and whose clients must be replied to.
    pub(in crate::lock) to_reply: Vec<Ticket>,
    /// How long requests that were granted have waited, in milliseconds.
    pub(in crate::lock) waited: Vec<Ms>,
    /// Holds that expired while other owners waited.
    pub(in crate::lock) lapsed: Vec<Lapse>,
    /// Locks whose holds have expired: each is announced in the next tick.
    pub(in crate::lock) expired: VecDeque<Name>,
}

impl Outbox {
    /// Takes the waiters whose clients must be unblocked now, in the order in which that was decided; of many
    /// only the first, and the others in the next turns. Each reply is then the waiter's
    /// [`outcome`](crate::lock::Locks::outcome).
    pub fn take_to_reply(&mut self) -> Vec<Ticket> {
        if self.to_reply.len() <= REPLIES {
            return std::mem::take(&mut self.to_reply);
        }
        self.to_reply.drain(..REPLIES).collect()
    }

    /// Takes the times that requests have waited which were granted since the last call.
    pub fn take_waited(&mut self) -> Vec<Ms> {
        std::mem::take(&mut self.waited)
    }

    /// Takes the holds that have expired since the last call while other owners waited.
    pub fn take_lapsed(&mut self) -> Vec<Lapse> {
        std::mem::take(&mut self.lapsed)
    }

    /// Gives back the lists of those that were replied to and of how long they have waited, so that their
    /// memory is used again.
    pub fn give_back(&mut self, mut replied: Vec<Ticket>, mut waited: Vec<Ms>) {
        replied.clear();
        waited.clear();
        keep_room(&mut self.to_reply, replied);
        keep_room(&mut self.waited, waited);
    }

    pub fn len(&self) -> usize {
        let parts = [self.to_reply.len(), self.waited.len(), self.lapsed.len(), self.expired.len()];
        parts.into_iter().sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
