//! The clients of waits: the reply to each, its end, and whether it has heard of its grant.

use crate::lock::engine::outcomes::Outcomes;
use crate::lock::room::give_back_room;
use crate::lock::stats::count;
use crate::lock::waiting::waits::waiter::{Reply, State, Tell, WaitOutcome, Waiter};
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

impl<'l> Outcomes<'l> {
    /// Returns the reply to this waiter's client, or nothing if it has been replied to. A waiter that still
    /// waits has timed out by that: its client has been unblocked, as by CLIENT UNBLOCK. A reply that `stays` is in the
    /// client's output buffer before the wait has ended: a grant is confirmed then once the turn of the server's loop is
    /// over.
    pub fn outcome(mut self, handle: Ticket, stays: bool) -> Option<WaitOutcome<'l>> {
        let Some((ticket, _)) = self.waiting.waits.wait_of_client(handle) else {
            let is_told = self.waiting.waits.tell_replaced(handle);
            return is_told.then_some(WaitOutcome::Replaced);
        };
        self.end_pending(ticket);
        let Self { waiting, counts, offers, .. } = self;
        if waiting.waits.is_waiting(ticket) {
            let moved_up = waiting.decide(ticket, State::TimedOut);
            waiting.queues.settle_later(moved_up);
            count(&mut counts.wait_timeouts, 1);
        }
        let waiter = waiting.waits.take_reply(ticket)?;
        Some(match waiter.state {
            State::NoReplicas(wanted) => WaitOutcome::NoReplicas(wanted),
            State::Granted(fence) => {
                offers.replied.extend(stays.then_some(ticket));
                WaitOutcome::Granted { owner: &waiter.owner, fence }
            }
            State::Denied => WaitOutcome::Denied(waiter.error().unwrap_or_default()),
            State::SentAway => WaitOutcome::SentAway,
            State::NoUpgrade => WaitOutcome::NoUpgrade,
            State::Waiting
            | State::Pending(_)
            | State::TimedOut
            | State::Withdrawn
            | State::Asleep => WaitOutcome::TimedOut,
        })
    }

    /// Has this waiter's client replied to once more, if its outcome is decided. Returns whether it is.
    pub fn reply_again(&mut self, handle: Ticket) -> bool {
        let waits = &self.waiting.waits;
        let decided = match waits.wait_of_client(handle) {
            Some((_, waiter)) => !matches!(waiter.state, State::Waiting | State::Pending(_)),
            None => waits.is_replaced(handle),
        };
        if decided {
            self.outbox.to_reply.push_back(handle);
        }
        decided
    }

    /// The server has ended the wait: the waiter is forgotten. A grant that was not delivered is given back
    /// in the next tick. One that seems to be delivered is remembered until that is confirmed, a turn later.
    pub fn ended(&mut self, handle: Ticket, end: End) {
        // What becomes of a client that was replaced does not touch the wait.
        let Some((ticket, _)) = self.waiting.waits.wait_of_client(handle) else {
            return self.waiting.waits.forget_replaced(handle);
        };
        let was_pending = self.waiting.pending.remove(ticket);
        let Some((waiter, moved_up)) = self.waiting.forget(ticket) else {
            return;
        };
        self.waiting.queues.settle_later(moved_up);
        let is_replied = matches!(waiter.tell, Tell::Client { reply: Reply::Taken, .. });
        let has_reply = is_replied && end.replies_stay && end.client_lives;
        match waiter.state {
            // The server may still close the connection in this turn of its loop, after the reply.
            State::Granted(_) if !end.cut_off || has_reply => {
                self.offers.unconfirmed.push((ticket, waiter));
            }
            _ if was_pending || waiter.is_granted() => {
                self.grant_ended(ticket, &waiter, false, end.client_lives);
            }
            // A client that is still connected, but got no reply of ours, may have been redirected to
            // another server.
            State::Waiting if end.client_lives => {
                for name in &*waiter.names {
                    self.clock.key_may_have_left(&name.key);
                }
            }
            _ => {}
        }
    }

    /// A turn of the server's loop is over, and all connections that it had to close in it are closed.
    /// Grants that were replied in that turn are confirmed if the connection lives, and given back if not.
    /// All of them at once, because in the next turn a connection may close after it has got its reply;
    /// there are no more of them than were granted in one turn.
    pub fn confirm(&mut self, mut lives: impl FnMut(u64) -> bool) {
        while let Some(ticket) = self.offers.replied.pop() {
            let waiter = self.waiting.waits.get(ticket);
            // Whatever becomes of the connection from now on, its grant is no offer any more.
            if waiter.is_some_and(|waiter| waiter.is_granted() && lives(waiter.client))
                && let Some((waiter, _)) = self.waiting.forget(ticket)
            {
                self.offers.end(self.holds, ticket, &waiter, true);
            }
        }
        give_back_room!(self.offers.replied);
        while let Some((ticket, waiter)) = self.offers.unconfirmed.pop() {
            let lives = lives(waiter.client);
            self.grant_ended(ticket, &waiter, lives, lives);
        }
        give_back_room!(self.offers.unconfirmed);
    }

    /// Ends the delivery of a waiter's grant, which is given back unless it was `heard`.
    fn grant_ended(&mut self, ticket: Ticket, waiter: &Waiter, heard: bool, client_lives: bool) {
        self.offers.end(self.holds, ticket, waiter, heard);
        // Its connection may have closed before the grant was made, when nothing was tied to it.
        if !client_lives {
            self.closed(waiter.client);
        }
    }

    /// A connection has closed: what is tied to it is given back in the next ticks. Returns whether there is
    /// anything.
    pub fn closed(&mut self, client: u64) -> bool {
        let any = self.holds.have_ties(client);
        let any = any || self.waiting.waits.tied_to(client).is_some();
        if any {
            self.offers.closed.insert(client);
        }
        any
    }

    /// A message to the owner of a place has been published.
    pub fn published(self) {
        count(&mut self.counts.notified, 1);
    }

    /// Ends the wait of a client that can't be blocked after all, and counts it as busy, like a request that does
    /// not wait.
    pub fn cannot_wait(&mut self, handle: Ticket) {
        self.forget_client(handle);
        count(&mut self.counts.busy, 1);
    }

    /// Removes the wait of a blocked client, without an outcome, unless another request has taken it over.
    pub fn forget_client(&mut self, handle: Ticket) {
        match self.waiting.waits.wait_of_client(handle) {
            Some((ticket, _)) => {
                self.end_pending(ticket);
                self.give_up(ticket);
            }
            None => self.waiting.waits.forget_replaced(handle),
        }
    }
}
