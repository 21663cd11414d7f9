//! Replies and events that the core has decided and the shell has yet to fetch.

use std::collections::VecDeque;

use crate::lock::words::{Name, Ticket};

/// Replies and events that have not been fetched yet.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Waiters whose outcome is decided and whose clients must be replied to.
    pub(in crate::lock) to_reply: Vec<Ticket>,
    /// Locks whose holds have expired: each is announced in the next tick.
    pub(in crate::lock) expired: VecDeque<Name>,
}

impl Outbox {
    /// Takes the waiters whose clients must be unblocked now, in the order in which that was decided: no more than a
    /// turn's budget allows. Each reply is then the waiter's [`outcome`](crate::lock::Locks::outcome).
    pub fn take_to_reply(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.to_reply)
    }

    /// Gives back the list of those that were replied to, so that its memory is used again.
    pub fn give_back(&mut self, mut replied: Vec<Ticket>) {
        replied.clear();
        if self.to_reply.capacity() == 0 && replied.capacity() <= 64 {
            self.to_reply = replied;
        }
    }
}
