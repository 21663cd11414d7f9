//! How a waiter leaves its queues.

use std::rc::Rc;

use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::State;
use crate::lock::words::{Name, NameRef, Now, Ticket};

impl Waiting {
    /// Takes a waiter out of its queues. Returns the locks in whose queues another waiter is the first now.
    pub fn leave(&mut self, ticket: Ticket) -> Vec<Name> {
        let names = self.stop_waiting(ticket);
        names.map_or_else(Vec::new, |names| self.leave_queues(ticket, &names))
    }

    /// Takes a waiter that is being granted its locks out of all of its queues.
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
        // A waiter that is to be sent away is granted nothing.
        let next = self.remove_from_queue(name, ticket);
        next.is_some_and(|next| next > self.waits.sent_away_to)
    }

    /// Takes a waiter out of one queue, and closes the queue if it was the last. Returns the waiter that is
    /// the first now, if it was the first before.
    fn remove_from_queue(&mut self, name: NameRef<'_>, ticket: Ticket) -> Option<Ticket> {
        let queue = self.queue(name)?;
        let was_first = queue.leave(ticket);
        let next = queue.first().filter(|_| was_first);
        if queue.is_empty() {
            self.set_alarm(name, None);
            if let Some(queues) = self.queues.get_mut(name.db) {
                queues.close(name.key);
            }
        }
        next
    }

    /// Returns the outcome of a waiter that must not be granted anything any more; nothing if it still may.
    pub fn outcome_if_over(&mut self, ticket: Ticket, now: Now) -> Option<State> {
        let waiter = self.waiters.get(&ticket)?;
        if ticket <= self.waits.sent_away_to {
            return Some(State::SentAway);
        }
        let is_up = match waiter.place {
            Some(_) => self.is_lease_over(ticket, now),
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
