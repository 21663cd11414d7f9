//! Places that sleep: they are out of their queues, and no waiter waits for them, until their owner asks
//! again.

use std::rc::Rc;

use crate::lock::waiting::Waiting;
use crate::lock::waiting::queue::State;
use crate::lock::words::{Name, NameRef, Ticket};

impl Waiting {
    /// How many entries of sleeping places are counted.
    #[cfg(test)]
    pub fn entries_asleep(&self) -> usize {
        self.waits.entries_asleep
    }

    /// Puts a place to sleep that is in no queue.
    pub fn fall_asleep(&mut self, ticket: Ticket) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        waiter.set_state(State::Asleep);
        let (names, until) = (Rc::clone(&waiter.names), waiter.until());
        if let Some(until) = until {
            self.waits.times_up.insert((until, ticket));
        }
        self.waits.entries_asleep = self.waits.entries_asleep.saturating_add(names.len());
        // The names of a granted place may be copies.
        let names: Vec<NameRef<'_>> = names.iter().map(Name::borrow).collect();
        let names = self.stand_in_queues(&names, |queue| queue.join_asleep(ticket));
        if let Some(waiter) = self.waiters.get_mut(&ticket) {
            waiter.names = names;
        }
    }

    /// Wakes a place: it is in its queues again, in order of its ticket.
    pub fn wake(&mut self, ticket: Ticket) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        if waiter.state() != State::Asleep {
            return;
        }
        waiter.set_state(State::Waiting);
        let (names, mode) = (Rc::clone(&waiter.names), waiter.mode_alone());
        self.waits.entries_asleep = self.waits.entries_asleep.saturating_sub(names.len());
        for name in &*names {
            let (_, queue) = self.queues.open(name.db).open(&name.key);
            queue.wake(ticket, mode);
            self.calendar.note(name.clone());
        }
        self.add_wait(ticket, &names);
    }
}
