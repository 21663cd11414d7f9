//! Channels on which owners are told that it is time to ask again.
//!
//! Whoever does not ask in time although a message was sent is probably dead, with everybody else who
//! is told on that channel. So all its places sleep until one of their owners asks: a dead process
//! costs the others one claim, and not one for each of its tasks.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::lock::queue::order::Order;
use crate::lock::queue::ticket::Ticket;
use crate::lock::request::Notify;

/// All channels that places are told on.
#[derive(Debug, Default)]
pub struct Channels {
    by_name: BTreeMap<Rc<[u8]>, Rc<Channel>>,
    /// How many of them sleep.
    asleep: usize,
}

/// One of them.
#[derive(Debug)]
pub struct Channel {
    /// Its name.
    pub name: Rc<[u8]>,
    asleep: Cell<bool>,
    /// Its places: one of them may be the first in a queue, and keep from the next what that may have.
    places: RefCell<Order<Ticket>>,
    /// Those of its places that have been laid aside for that.
    sleepers: RefCell<BTreeSet<Ticket>>,
}

/// What a place is told, and where.
#[derive(Debug)]
pub struct Heard {
    pub channel: Rc<Channel>,
    pub text: Box<[u8]>,
}

impl Channel {
    /// Do its places sleep?
    pub fn is_asleep(&self) -> bool {
        self.asleep.get()
    }

    /// One more of its places.
    pub fn join(&self, ticket: Ticket) {
        self.places.borrow_mut().insert(ticket);
    }

    /// One less.
    pub fn leave(&self, ticket: Ticket) {
        self.sleepers.borrow_mut().remove(&ticket);
        self.places.borrow_mut().remove(ticket);
    }

    /// One of its places has been laid aside.
    pub fn lay_aside(&self, ticket: Ticket) {
        self.sleepers.borrow_mut().insert(ticket);
    }
}

impl Channels {
    /// For one more place.
    pub fn open(&mut self, notify: Notify<'_>) -> Heard {
        let channel = match self.by_name.get(notify.channel) {
            Some(channel) => Rc::clone(channel),
            None => {
                let name: Rc<[u8]> = Rc::from(notify.channel);
                let channel = Rc::new(Channel {
                    name: Rc::clone(&name),
                    asleep: Cell::new(false),
                    places: RefCell::default(),
                    sleepers: RefCell::default(),
                });
                self.by_name.insert(name, Rc::clone(&channel));
                channel
            }
        };
        Heard {
            channel,
            text: Box::from(notify.text),
        }
    }

    /// A place that has left the channel is told nothing there any more. The last one closes it.
    pub fn close(&mut self, heard: Heard) {
        let channel = heard.channel;
        // Ours, and that of the table.
        if Rc::strong_count(&channel) <= 2 {
            if channel.is_asleep() {
                self.asleep = self.asleep.saturating_sub(1);
            }
            self.by_name.remove(&channel.name);
        }
    }

    /// All places of this channel sleep from now on. Its name, if they did not sleep already.
    pub fn send_to_sleep(&mut self, name: &[u8]) -> Option<Rc<[u8]>> {
        let channel = self.by_name.get(name)?;
        if channel.asleep.replace(true) {
            return None;
        }
        self.asleep = self.asleep.saturating_add(1);
        Some(Rc::clone(&channel.name))
    }

    /// The next place of a channel that sleeps.
    pub fn next_place(&self, name: &[u8], from: Ticket) -> Option<Ticket> {
        let channel = self.by_name.get(name)?;
        let places = channel.places.borrow();
        let next = places.from(from).next();
        next.filter(|_| channel.is_asleep())
    }

    /// They sleep no more. Those that have been laid aside are to be put back.
    pub fn wake(&mut self, channel: &Channel) -> BTreeSet<Ticket> {
        if channel.asleep.replace(false) {
            self.asleep = self.asleep.saturating_sub(1);
        }
        channel.sleepers.take()
    }

    /// Does any of them sleep?
    pub fn any_asleep(&self) -> bool {
        self.asleep > 0
    }

    /// How many places are told on this channel.
    #[cfg(test)]
    pub fn places(&self, name: &[u8]) -> usize {
        let channel = self.by_name.get(name);
        channel.map_or(0, |channel| channel.places.borrow().len())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }
}
