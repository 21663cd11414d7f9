//! Replies and events that the core has decided and the shell has yet to fetch.

use std::collections::VecDeque;

use crate::lock::room::give_back_room;
use crate::lock::words::{Name, Ticket};

/// Replies and events that have not been fetched yet.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Waiters whose outcome is decided and whose clients must be replied to.
    pub(in crate::lock) to_reply: VecDeque<Ticket>,
    /// Locks whose holds have expired: each is announced in the next tick.
    pub(in crate::lock) expired: VecDeque<Name>,
}

impl Outbox {
    /// Takes the next waiter whose client must be unblocked now, in the order in which that was decided: there are no more
    /// than a turn's budget allows. The reply is then the waiter's [`outcome`](crate::lock::engine::outcomes::Outcomes::outcome).
    pub fn next_to_reply(&mut self) -> Option<Ticket> {
        give_back_room!(self.to_reply);
        self.to_reply.pop_front()
    }
}
