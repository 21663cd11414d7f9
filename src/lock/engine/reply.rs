//! The end of a wait: the reply to its client, and whether the client has heard of its grant.

use crate::lock::engine::locks::Locks;
use crate::lock::room::keep_room;
use crate::lock::stats::count;
use crate::lock::waiting::waits::waiter::{State, WaitOutcome, Waiter};
use crate::lock::words::Ticket;

/// What the server knows of a waiter's client when the waiter ends.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The wait has ended otherwise than by our reply.
    pub cut_off: bool,
    pub client_lives: bool,
    /// A reply that this server has accepted is sent to the client, even if it is disconnected next.
    /// Other servers may drop it then.
    pub replies_stay: bool,
}

impl Locks {
    /// Returns the reply to this waiter's client, or nothing if it has been replied to. A waiter that still
    /// waits has timed out by that: its client has been unblocked, as by CLIENT UNBLOCK.
    pub fn outcome(&mut self, handle: Ticket) -> Option<WaitOutcome<'_>> {
        if let Some(is_to_be_told) = self.waiting.waits.tell_replaced(handle) {
            return is_to_be_told.then_some(WaitOutcome::Replaced);
        }
        let ticket = self.waiting.waits.wait_of_client(handle)?;
        if self.waiting.waits.is_waiting(ticket) {
            let moved_up = self.waiting.decide(ticket, State::TimedOut);
            self.waiting.queues.settle_later(moved_up);
            count(&mut self.counts.wait_timeouts, 1);
        }
        if !self.waiting.waits.take_reply(ticket) {
            return None;
        }
        let waiter = self.waiting.waits.get(ticket)?;
        Some(match waiter.state() {
            State::Granted(fence) => WaitOutcome::Granted { owner: &waiter.owner, fence },
            State::Denied => {
                WaitOutcome::Denied(self.waiting.waits.denial(ticket).unwrap_or_default())
            }
            State::SentAway => WaitOutcome::SentAway,
            State::NoUpgrade => WaitOutcome::NoUpgrade,
            State::Waiting | State::TimedOut | State::Withdrawn | State::Asleep => {
                WaitOutcome::TimedOut
            }
        })
    }

    /// The reply to this waiter is in its client's output buffer before the wait has ended. If it was granted
    /// its locks, that is confirmed once the turn of the server's loop is over.
    pub fn reply_stays(&mut self, handle: Ticket) {
        let ticket = self.waiting.waits.wait_of_client(handle);
        let is_granted =
            |&ticket: &Ticket| self.waiting.waits.get(ticket).is_some_and(Waiter::is_granted);
        self.replied.extend(ticket.filter(is_granted));
    }

    /// Has this waiter's client replied to once more, if its outcome is decided. Returns whether it is.
    pub fn reply_again(&mut self, handle: Ticket) -> bool {
        let ticket = self.waiting.waits.wait_of_client(handle);
        let waiter = ticket.and_then(|ticket| self.waiting.waits.get(ticket));
        let decided = waiter.is_some_and(|waiter| waiter.state() != State::Waiting)
            || self.waiting.waits.is_replaced(handle);
        if decided {
            self.outbox.to_reply.push(handle);
        }
        decided
    }

    /// The server has ended the wait: the waiter is forgotten. A grant that was not delivered is given back
    /// in the next tick. One that seems to be delivered is remembered until that is confirmed, a turn later.
    pub fn ended(&mut self, handle: Ticket, end: End) {
        // What becomes of a client that was replaced does not touch the wait.
        if self.waiting.waits.forget_replaced(handle) {
            return;
        }
        let Some(ticket) = self.waiting.waits.wait_of_client(handle) else {
            return;
        };
        let Some((waiter, moved_up)) = self.waiting.forget(ticket) else {
            return;
        };
        self.waiting.queues.settle_later(moved_up);
        match waiter.state() {
            State::Granted(_) => {
                let has_reply = waiter.is_replied() && end.replies_stay && end.client_lives;
                let is_heard = waiter.is_heard();
                let heard = is_heard || !end.cut_off || has_reply;
                // The server may still close the connection in this turn of its loop, after the reply.
                if heard && !is_heard {
                    self.unconfirmed.push((ticket, waiter));
                } else {
                    self.grant_ended(ticket, &waiter, heard, end.client_lives);
                }
            }
            // A client that is still connected, but got no reply of ours, may have been redirected to
            // another server.
            State::Waiting if end.client_lives => {
                for name in &*waiter.names {
                    self.slot_may_have_left(&name.key);
                }
            }
            _ => {}
        }
    }

    pub fn has_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty() || !self.replied.is_empty()
    }

    /// A turn of the server's loop is over, and all connections that it had to close in it are closed.
    /// Grants that were replied in that turn are confirmed if the connection lives, and given back if not.
    /// All of them at once, because in the next turn a connection may close after it has got its reply;
    /// there are no more of them than were granted in one turn.
    pub fn confirm(&mut self, mut lives: impl FnMut(u64) -> bool) {
        let mut replied = std::mem::take(&mut self.replied);
        for ticket in replied.drain(..) {
            self.waiting.waits.set_heard(ticket, &mut lives);
        }
        keep_room(&mut self.replied, replied);
        let mut ended = std::mem::take(&mut self.unconfirmed);
        for (ticket, waiter) in ended.drain(..) {
            let lives = lives(waiter.client);
            self.grant_ended(ticket, &waiter, lives, lives);
        }
        keep_room(&mut self.unconfirmed, ended);
    }

    /// Ends the delivery of a waiter's grant, which is given back unless it was `heard`.
    fn grant_ended(&mut self, ticket: Ticket, waiter: &Waiter, heard: bool, client_lives: bool) {
        self.offer_ended(ticket, &waiter.names, &waiter.owner, heard);
        // Its connection may have closed before the grant was made, when nothing was tied to it.
        if !client_lives {
            self.closed(waiter.client);
        }
    }

    /// A connection has closed: what is tied to it is given back in the next ticks. Returns whether there is
    /// anything.
    pub fn closed(&mut self, client: u64) -> bool {
        let any = self.holds.have_ties(client);
        let any = any || self.waiting.places.tied_to(client).is_some();
        if any {
            self.closed.insert(client);
        }
        any
    }
}
