//! How a waiter leaves its queues.
//!
//! A waiter for many locks stands in as many queues, and thousands of them may leave at once: because
//! their connections close, their time is up, or the server becomes a replica. Such a waiter stops
//! waiting at once, but is taken out of its queues in portions. Until then its entries don't count: a
//! search for the first of a queue takes them out.

use std::rc::Rc;

use crate::lock::room::give_back_room;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::{Holders, State};
use crate::lock::words::{Name, NameRef, Now, Ticket};

/// A waiter in up to this many queues is removed from all of them at once, if nothing else is set.
pub const FEW_QUEUES: usize = 16;

/// A waiter that has stopped waiting and is still in some of its queues.
#[derive(Debug)]
pub struct Leaving {
    pub ticket: Ticket,
    pub names: Rc<[Name]>,
    /// It has left the queues of the names before this index.
    pub next: usize,
}

impl Waiting {
    /// Takes a waiter out of its queues, or leaves that to the backlog if they are many. Returns the locks
    /// in whose queues another waiter is the first now.
    pub fn leave(&mut self, ticket: Ticket) -> Vec<Name> {
        let Some(names) = self.stop_waiting(ticket) else {
            return Vec::new();
        };
        if names.len() > self.few_queues {
            self.leaving.push_back(Leaving { ticket, names, next: 0 });
            return Vec::new();
        }
        self.leave_queues(ticket, &names)
    }

    /// Takes a waiter out of all of its queues at once, however many they are. Returns the locks in whose
    /// queues another waiter is the first now.
    pub fn leave_at_once(&mut self, ticket: Ticket) -> Vec<Name> {
        let names = self.stop_waiting(ticket);
        names.map_or_else(Vec::new, |names| self.leave_queues(ticket, &names))
    }

    /// Takes a waiter that is being granted its locks out of all of its queues at once.
    pub fn leave_with_grant(&mut self, ticket: Ticket) {
        for name in self.stop_waiting(ticket).iter().flat_map(|names| &**names) {
            self.remove_from_queue(name.borrow(), ticket);
        }
    }

    /// Takes a waiter out of the queues of these locks. Returns those in whose queues another waiter is
    /// the first now.
    pub fn leave_queues(&mut self, ticket: Ticket, names: &[Name]) -> Vec<Name> {
        let mut moved_up = Vec::new();
        for name in names {
            if self.leave_queue(name.borrow(), ticket) {
                moved_up.push(name.clone());
            }
        }
        moved_up
    }

    /// Removes a waiter from all indexes of what waits, though not from its queues. Returns the locks that
    /// it has waited for, or nothing if it does not wait.
    pub fn stop_waiting(&mut self, ticket: Ticket) -> Option<Rc<[Name]>> {
        let waiter = self.waiters.get(&ticket)?;
        if waiter.state() != State::Waiting {
            return None;
        }
        if let Some(until) = waiter.until() {
            self.waits.times_up.remove((until, ticket));
        }
        let names = Rc::clone(&waiter.names);
        self.remove_wait(ticket, &names);
        Some(names)
    }

    /// Takes a waiter out of one queue. Returns whether another one, which may be granted something, is the
    /// first now.
    fn leave_queue(&mut self, name: NameRef<'_>, ticket: Ticket) -> bool {
        // A waiter that is leaving itself, or is to be sent away, is granted nothing.
        let next = self.remove_from_queue(name, ticket);
        next.is_some_and(|next| next > self.waits.sent_away_to && self.is_waiting(next))
    }

    /// Takes a waiter out of one queue, and closes the queue if it was the last. Returns the waiter that is
    /// the first now, if it was the first before.
    fn remove_from_queue(&mut self, name: NameRef<'_>, ticket: Ticket) -> Option<Ticket> {
        let queue = self.queue(name)?;
        let was_first = queue.leave(ticket);
        let next = queue.first().filter(|_| was_first);
        if queue.is_empty() {
            self.set_alarm(name, None);
            self.set_holders(name, Holders::Free);
            if let Some(queues) = self.queues.get_mut(name.db) {
                queues.close(name.key);
            }
        }
        next
    }

    /// Takes waiters that are leaving out of up to `most` queues, and returns out of how many it has.
    pub fn leave_some(&mut self, most: usize) -> usize {
        for done in 0..most {
            let Some(Leaving { ticket, names, next }) = self.leaving.front_mut() else {
                return done;
            };
            let (ticket, name) = (*ticket, names.get(*next).cloned());
            *next = next.saturating_add(1);
            match name {
                Some(name) if self.leave_queue(name.borrow(), ticket) => {
                    self.calendar.note(name);
                }
                Some(_) => {}
                None => {
                    self.leaving.pop_front();
                    give_back_room(&mut self.leaving);
                }
            }
        }
        most
    }

    /// Returns the first waiter of a queue, and whether it comes first as an upgrade, even if it has lost the share
    /// that makes it one. Takes out or lays aside those before it that are leaving or asleep.
    pub fn first_in_queue(&mut self, name: NameRef<'_>) -> Option<(Ticket, bool)> {
        loop {
            let queue = self.queue(name)?;
            let ticket = queue.first()?;
            let is_upgrade = queue.is_upgrade(ticket);
            if self.places.channels.any_asleep() && self.sleeps_by_channel(ticket) {
                let moved_up = self.lay_aside(ticket);
                self.calendar.note_all(moved_up);
                continue;
            }
            if self.leaving.is_empty() || self.is_waiting(ticket) {
                return Some((ticket, is_upgrade));
            }
            // The caller may be settling another queue: this one is settled in the next tick.
            if self.leave_queue(name, ticket) {
                self.calendar.note(name.keep());
            }
        }
    }

    /// Returns the outcome of a waiter that must not be granted anything any more; nothing if it still may.
    pub fn outcome_if_over(&mut self, ticket: Ticket, now: Now) -> Option<State> {
        let waiter = self.waiters.get(&ticket)?;
        if ticket <= self.waits.sent_away_to {
            return Some(State::SentAway);
        }
        let is_up = match waiter.place {
            Some(_) => self.check_lease_is_over(ticket, now),
            None => waiter.is_up(now),
        };
        is_up.then_some(State::TimedOut)
    }

    /// Marks all present waiters as to be sent away: none of them is granted anything any more.
    pub fn send_all_away(&mut self) {
        self.waits.sent_away_to = self.waits.last_ticket();
    }

    /// Is any waiter still to be sent away?
    pub fn has_to_send_away(&self) -> bool {
        (self.waits.waiting.first()).is_some_and(|ticket| ticket <= self.waits.sent_away_to)
    }
}
