//! Ending a place, for whatever reason; and ending many at once.

use std::rc::Rc;

use crate::lock::budget::Budget;
use crate::lock::slot;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::{Ending, Message, Notice};
use crate::lock::waiting::queue::{State, Waiter};
use crate::lock::words::{Name, Ticket};

/// At most this many messages that do not apply any more are skipped in one call.
const MOST_PASSED: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its owner has been told that it holds what it asked for.
    Claimed,
    /// Its owner has released the lock, or asked for another mode.
    ByItsOwner,
    /// It is lost, and not because of what its owner did.
    Lost,
}

impl Waiting {
    /// Ends a place, whose claim has ended. Returns the locks in whose queues another waiter is now the first.
    pub fn end_place(&mut self, ticket: Ticket, ended: Ended) -> Vec<Name> {
        let Some(waiter) = self.waiters.get(&ticket) else {
            return Vec::new();
        };
        let names = Rc::clone(&waiter.names);
        let moved_up = match waiter.state() {
            State::Waiting => self.leave(ticket),
            State::Asleep => {
                self.waits.entries_asleep = self.waits.entries_asleep.saturating_sub(names.len());
                self.leave_queues(ticket, &names)
            }
            _ => Vec::new(),
        };
        let Some(waiter) = self.forget(ticket) else {
            return moved_up;
        };
        if let Some(until) = waiter.until() {
            self.waits.times_up.remove((until, ticket));
        }
        self.places.sessions.remove(&(waiter.client, ticket));
        if ended == Ended::Lost {
            let message = waiter.place.and_then(|place| place.message(None));
            self.places.messages.extend(message.map(|message| Notice::Lost(Box::new(message))));
        }
        moved_up
    }

    /// The grant of this place has been claimed, or has ended without that.
    pub fn end_claim(&mut self, ticket: Ticket) {
        if let Some(place) = self.waiters.get(&ticket).and_then(|waiter| waiter.place.as_ref()) {
            self.places.claims.remove(&(place.claim_ends, ticket));
        }
    }

    /// Takes out the next message to publish. Messages about grants that were claimed or have ended are
    /// skipped.
    pub fn next_message(&mut self) -> Option<Message> {
        for _ in 0..MOST_PASSED {
            let message = match self.places.messages.pop_front()? {
                Notice::Granted(ticket) => {
                    let waiter = self.waiters.get(&ticket);
                    let waiter = waiter.filter(|waiter| waiter.is_granted());
                    let place = waiter.and_then(|waiter| waiter.place.as_deref());
                    place.and_then(|place| place.message(Some(ticket)))
                }
                Notice::Lost(message) => Some(*message),
            };
            if message.is_some() {
                return message;
            }
        }
        None
    }

    /// The next place whose end is scheduled and due; none if the budget is spent before one is found.
    pub fn next_to_end(&mut self, budget: &mut Budget) -> Option<Ticket> {
        while !budget.is_spent() {
            let (left, ending) = self.places.endings.front().cloned()?;
            let next = self.waiters.next_place(*left.start());
            let Some(ticket) = next.filter(|ticket| left.contains(ticket)) else {
                self.places.endings.pop_front();
                continue;
            };
            if let Some((left, _)) = self.places.endings.front_mut() {
                *left = ticket.saturating_add(1)..=*left.end();
            }
            budget.draw(1);
            if self.is_ending(ticket, &ending) {
                budget.draw(self.reply_cost(ticket));
                return Some(ticket);
            }
        }
        None
    }

    /// A place that is tied to this connection.
    pub fn place_tied_to(&self, client: u64) -> Option<Ticket> {
        let tied = (self.places.sessions).range((client, 0)..=(client, Ticket::MAX));
        tied.map(|&(_, ticket)| ticket).next()
    }

    /// Schedules the end of many places; they end in portions, in the next ticks.
    pub fn end_places(&mut self, ending: Ending) {
        if self.waiters.has_places() {
            let all = 0..=self.waits.last_ticket();
            self.places.endings.push_back((all, ending));
        }
    }

    /// Is this place to end in one of the next ticks? One that has been granted its locks is not: it may be
    /// claimed until then.
    pub fn is_to_end(&self, ticket: Ticket) -> bool {
        let is_granted = (self.waiters.get(&ticket)).is_some_and(Waiter::is_granted);
        let mut endings = self.places.endings.iter();
        !is_granted
            && endings
                .any(|(left, ending)| left.contains(&ticket) && self.is_ending(ticket, ending))
    }

    fn is_ending(&self, ticket: Ticket, ending: &Ending) -> bool {
        let waiter = self.waiters.get(&ticket);
        waiter.is_some_and(|waiter| match ending {
            Ending::All => true,
            Ending::InSlots(slots) => {
                (waiter.names.first()).is_some_and(|name| slots.contains(slot::of(&name.key)))
            }
        })
    }
}
