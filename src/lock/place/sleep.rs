//! Places that sleep: they are passed over, and nobody waits for them, until their owner asks again.

use std::rc::Rc;

use crate::lock::budget::Budget;
use crate::lock::locks::Locks;
use crate::lock::name::Name;
use crate::lock::queue::ticket::Ticket;
use crate::lock::queue::waiter::State;

impl Locks {
    /// Does its channel sleep?
    pub(in crate::lock) fn sleeps_by_channel(&self, ticket: Ticket) -> bool {
        let waiter = self.waiters.get(&ticket);
        let place = waiter.and_then(|waiter| waiter.place.as_deref());
        (place.and_then(|place| place.notify.as_ref()))
            .is_some_and(|heard| heard.channel.is_asleep())
    }

    /// Lays a place aside that stands in its queues. In which of them is somebody else the first now?
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
        let heard = (self.waiters.get(&ticket))
            .and_then(|waiter| waiter.place.as_ref()?.notify.as_ref())
            .filter(|heard| heard.channel.is_asleep());
        if let Some(heard) = heard {
            heard.channel.lay_aside(ticket);
        }
        self.fall_asleep(ticket);
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

    /// Its owner has asked: it stands again where it stood.
    pub(in crate::lock) fn wake(&mut self, ticket: Ticket) {
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
            queue.join(ticket);
            queue.stale = true;
            self.noted.insert(name.clone());
        }
        self.add_wait(ticket, &names, &owner, true);
    }

    /// An owner that is told on this place's channel has asked, so it is not dead: nor are the others.
    pub(in crate::lock) fn wake_channel_of(&mut self, ticket: Ticket) {
        let waiter = self.waiters.get(&ticket);
        let place = waiter.and_then(|waiter| waiter.place.as_deref());
        let Some(heard) = place.and_then(|place| place.notify.as_ref()) else {
            return;
        };
        if heard.channel.is_asleep() {
            let channel = Rc::clone(&heard.channel);
            let sleepers = self.places.channels.wake(&channel);
            self.places.waking.extend(sleepers);
        }
    }

    /// Nobody listens on this channel: its places sleep until one of their owners asks.
    pub fn nobody_heard(&mut self, channel: &[u8]) {
        self.send_to_sleep(channel);
    }

    /// All places of this channel sleep from now on. They are laid aside in portions: one of them may be
    /// the first in a queue already.
    pub(in crate::lock) fn send_to_sleep(&mut self, channel: &[u8]) {
        if let Some(name) = self.places.channels.send_to_sleep(channel) {
            self.places.falling.push_back((name, 0));
        }
    }

    /// Lays some of those aside.
    pub(in crate::lock) fn lay_some_aside(&mut self, budget: &mut Budget) {
        while !budget.is_spent()
            && let Some((name, from)) = self.places.falling.front_mut()
        {
            let Some(ticket) = self.places.channels.next_place(name, *from) else {
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
    pub(in crate::lock) fn wake_some(&mut self, budget: &mut Budget) {
        while !budget.is_spent()
            && let Some(ticket) = self.places.waking.pop_front()
        {
            let names = self.waiters.get(&ticket).map_or(0, |one| one.names.len());
            budget.draw(names.saturating_add(1));
            if !self.sleeps_by_channel(ticket) {
                self.wake(ticket);
            } else if let Some(waiter) = self.waiters.get(&ticket)
                && let Some(heard) = waiter
                    .place
                    .as_ref()
                    .and_then(|place| place.notify.as_ref())
            {
                heard.channel.lay_aside(ticket);
            }
        }
    }
}
