//! Places that sleep: they are out of their queues, and no waiter waits for them, until their owner asks
//! again.

use std::rc::Rc;

use crate::lock::budget::Budget;
use crate::lock::waiting::Waiting;
use crate::lock::waiting::place::channel::ChannelId;
use crate::lock::waiting::queue::State;
use crate::lock::words::{Name, NameRef, Ticket};

impl Waiting {
    /// The channel on which this place's owner is notified, if it has one.
    pub fn channel_of(&self, ticket: Ticket) -> Option<ChannelId> {
        let place = self.waiters.get(&ticket)?.place.as_deref()?;
        Some(place.notify.as_ref()?.channel)
    }

    pub fn sleeps_by_channel(&self, ticket: Ticket) -> bool {
        (self.channel_of(ticket)).is_some_and(|channel| self.places.channels.is_asleep(channel))
    }

    /// Does this place sleep? One whose channel sleeps does, even before it is laid aside.
    pub fn sleeps(&self, ticket: Ticket) -> bool {
        let is_asleep = (self.waiters.get(&ticket)).is_some_and(|one| one.state() == State::Asleep);
        is_asleep || self.sleeps_by_channel(ticket)
    }

    /// How many entries of sleeping places are counted.
    #[cfg(test)]
    pub fn entries_asleep(&self) -> usize {
        self.waits.entries_asleep
    }

    /// Takes a place out of its queues because its channel sleeps. Returns the locks in whose queues another
    /// waiter is now the first.
    pub fn lay_aside(&mut self, ticket: Ticket) -> Vec<Name> {
        let Some(names) = self.stop_waiting(ticket) else {
            return Vec::new();
        };
        let mut moved_up = Vec::new();
        for name in &*names {
            if let Some(queue) = self.queue(name.borrow())
                && queue.lay_aside(ticket)
                && queue.first().is_some()
            {
                moved_up.push(name.clone());
            }
        }
        self.fall_asleep(ticket);
        if let Some(channel) = self.channel_of(ticket) {
            self.places.channels.lay_aside(channel, ticket);
        }
        moved_up
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
        let channel = self.channel_of(ticket);
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        if waiter.state() != State::Asleep {
            return;
        }
        waiter.set_state(State::Waiting);
        let names = Rc::clone(&waiter.names);
        self.waits.entries_asleep = self.waits.entries_asleep.saturating_sub(names.len());
        for name in &*names {
            let (_, queue) = self.queues.open(name.db).open(&name.key);
            queue.wake(ticket);
            self.calendar.note(name.clone());
        }
        if let Some(channel) = channel {
            self.places.channels.put_back(channel, ticket);
        }
        self.add_wait(ticket, &names, true);
    }

    /// Wakes this place's channel: one of its owners has asked, so the process behind it is alive.
    pub fn wake_channel_of(&mut self, ticket: Ticket) {
        if let Some(channel) = self.channel_of(ticket) {
            self.places.channels.wake(channel);
        }
    }

    /// Puts all places of this channel to sleep. They are taken out of their queues in portions; one that
    /// comes first in a queue before that is taken out then.
    pub fn send_to_sleep(&mut self, channel: ChannelId) {
        if self.places.channels.send_to_sleep(channel) {
            self.places.falling.push_back((channel, 0));
        }
    }

    /// Takes some places of sleeping channels out of their queues.
    pub fn lay_some_aside(&mut self, budget: &mut Budget) {
        while !budget.is_spent()
            && let Some((channel, from)) = self.places.falling.front_mut()
        {
            let Some(ticket) = self.places.channels.next_place(*channel, *from) else {
                self.places.falling.pop_front();
                continue;
            };
            *from = ticket.saturating_add(1);
            budget.draw(self.reply_cost(ticket));
            let moved_up = self.lay_aside(ticket);
            self.calendar.note_all(moved_up);
        }
    }

    /// Puts some places of channels that are awake again back into their queues, in order.
    pub fn put_some_back(&mut self, budget: &mut Budget) {
        while !budget.is_spent()
            && let Some(ticket) = self.places.channels.next_to_put_back()
        {
            let names = self.waiters.get(&ticket).map_or(0, |one| one.names.len());
            budget.draw(names.saturating_add(1));
            self.wake(ticket);
        }
    }
}
