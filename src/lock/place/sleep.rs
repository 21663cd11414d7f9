//! Places that sleep: they are passed over, and nobody waits for them, until their owner asks again.

use std::rc::Rc;

use crate::lock::budget::Budget;
use crate::lock::locks::Locks;
use crate::lock::name::{Name, NameRef};
use crate::lock::place::channel::{Channel, ChannelId};
use crate::lock::queue::Queue;
use crate::lock::queue::ticket::Ticket;
use crate::lock::queue::waiter::State;

impl Locks {
    /// The channel on which its owner is told.
    pub(in crate::lock) fn channel_of(&self, ticket: Ticket) -> Option<&Rc<Channel>> {
        let place = self.waiters.get(&ticket)?.place.as_deref()?;
        Some(&place.notify.as_ref()?.channel)
    }

    /// Does its channel sleep?
    pub(in crate::lock) fn sleeps_by_channel(&self, ticket: Ticket) -> bool {
        (self.channel_of(ticket)).is_some_and(|channel| channel.is_asleep())
    }

    /// Does this place sleep? One that has yet to be put back does not.
    pub(in crate::lock) fn sleeps(&self, ticket: Ticket) -> bool {
        let is_aside = (self.waiters.get(&ticket)).is_some_and(|one| one.state() == State::Asleep);
        match self.channel_of(ticket) {
            Some(channel) => channel.is_asleep() || (is_aside && !channel.has_aside(ticket)),
            None => is_aside,
        }
    }

    /// Lays a place aside that stands in its queues, because its channel sleeps. In which of them is
    /// somebody else the first now?
    pub(in crate::lock) fn lay_aside(&mut self, ticket: Ticket) -> Vec<Name> {
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
        if let Some(channel) = self.channel_of(ticket).map(Rc::clone) {
            channel.lay_aside(ticket);
            for name in &*names {
                if let Some(queue) = self.queue(name.borrow()) {
                    queue.aside.insert((channel.id, ticket));
                }
            }
        }
        moved_up
    }

    /// A place that stands in no queue sleeps from now on.
    pub(in crate::lock) fn fall_asleep(&mut self, ticket: Ticket) {
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        waiter.set_state(State::Asleep);
        let (names, until) = (Rc::clone(&waiter.names), waiter.until());
        if let Some(until) = until {
            self.waits.times_up.insert((until, ticket));
        }
        // It may not have stood in a queue: whoever does shares its key.
        let names = if let [name] = &*names {
            let (key, queue) = (self.databases.open(name.db).queues).open(&name.key);
            queue.asleep.insert(ticket);
            queue.alone(|| Name { db: name.db, key })
        } else {
            let lie_down = |name: &Name| {
                let (key, queue) = (self.databases.open(name.db).queues).open(&name.key);
                queue.asleep.insert(ticket);
                Name { db: name.db, key }
            };
            names.iter().map(lie_down).collect()
        };
        if let Some(waiter) = self.waiters.get_mut(&ticket) {
            waiter.names = names;
        }
    }

    /// It sleeps no more: it stands again where it stood.
    pub(in crate::lock) fn wake(&mut self, ticket: Ticket) {
        let channel = self.channel_of(ticket).map(Rc::clone);
        let Some(waiter) = self.waiters.get_mut(&ticket) else {
            return;
        };
        if waiter.state() != State::Asleep {
            return;
        }
        waiter.set_state(State::Waiting);
        let (names, owner) = (Rc::clone(&waiter.names), Rc::clone(&waiter.owner));
        for name in &*names {
            let (_, queue) = (self.databases.open(name.db).queues).open(&name.key);
            queue.asleep.remove(&ticket);
            if let Some(channel) = &channel {
                queue.aside.remove((channel.id, ticket));
            }
            queue.join(ticket);
            queue.stale = true;
            self.noted.insert(name.clone());
        }
        if let Some(channel) = channel {
            self.places.channels.put_back(&channel, ticket);
        }
        self.add_wait(ticket, &names, &owner, true);
    }

    /// An owner that is told on this place's channel has asked, so it is not dead: nor are the others.
    pub(in crate::lock) fn wake_channel_of(&mut self, ticket: Ticket) {
        if let Some(channel) = self.channel_of(ticket).map(Rc::clone) {
            self.places.channels.wake(&channel);
        }
    }

    /// Nobody listens on this channel: its places sleep until one of their owners asks.
    pub fn nobody_heard(&mut self, channel: ChannelId) {
        self.send_to_sleep(channel);
    }

    /// All places of this channel sleep from now on. They are laid aside in portions: one of them may be
    /// the first in a queue already.
    pub(in crate::lock) fn send_to_sleep(&mut self, channel: ChannelId) {
        if self.places.channels.send_to_sleep(channel) {
            self.places.falling.push_back((channel, 0));
        }
    }

    /// Lays some of those aside.
    pub(in crate::lock) fn lay_some_aside(&mut self, budget: &mut Budget) {
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
            self.noted.extend(moved_up);
        }
    }

    /// Puts some of those back whose channel sleeps no more.
    pub(in crate::lock) fn put_some_back(&mut self, budget: &mut Budget) {
        while !budget.is_spent()
            && let Some(ticket) = self.places.channels.next_to_put_back()
        {
            let names = self.waiters.get(&ticket).map_or(0, |one| one.names.len());
            budget.draw(names.saturating_add(1));
            self.wake(ticket);
        }
    }

    /// If one that has yet to be put back comes first in this queue, it stands there from now on.
    pub(in crate::lock) fn put_first_back(&mut self, name: NameRef<'_>) {
        if self.places.channels.count_waking() == 0 {
            return;
        }
        let Some(queue) = self.queue_of(name) else {
            return;
        };
        let waking = self.places.channels.waking();
        let first = waking
            .filter_map(|channel| queue.aside_with(channel).next())
            .min();
        if let Some(ticket) = first.filter(|&ticket| queue.would_be_first(ticket)) {
            self.wake(ticket);
        }
    }

    /// How many come before this one in one of its queues, those among them that have yet to be put back.
    pub(in crate::lock) fn before_in(&self, queue: &Queue, ticket: Ticket) -> usize {
        let waking = self.places.channels.waking();
        let aside = waking.map(|channel| queue.aside_before(channel, ticket));
        aside.fold(queue.before(ticket), usize::saturating_add)
    }
}
