//! Channels on which owners are told that it is time to ask again.
//!
//! An owner that does not ask in time although a message was sent is probably dead, with all others that
//! are told on that channel. So all its places sleep until one of their owners asks: a dead process costs
//! the others one claim, and not one for each of its tasks. Only one user's places: a user who may publish
//! on another's channel must not be able to put the other's places to sleep.
//!
//! | a channel | its places | what may come next |
//! |---|---|---|
//! | awake | stand in their queues | a claim ran out, or nobody heard a message: asleep |
//! | asleep | are laid aside, a portion at a time; one that comes first is laid aside at once | one of their owners asks: waking |
//! | waking | count as standing where they stood, and are put back, a portion at a time; one that comes first is put back at once | all are back: awake; asleep |

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::lock::queue::order::Order;
use crate::lock::queue::ticket::Ticket;
use crate::lock::request::Notify;

/// What a channel is found by.
pub type ChannelId = u64;

/// Whose places are told on a channel, and its name.
type UserAndName = (Box<[u8]>, Rc<[u8]>);

/// All channels that places are told on.
#[derive(Debug, Default)]
pub struct Channels {
    /// By their users and names.
    ids: BTreeMap<UserAndName, ChannelId>,
    by_id: BTreeMap<ChannelId, Rc<Channel>>,
    last_id: ChannelId,
    /// How many of them sleep.
    asleep: usize,
    /// Those of which some places have yet to be put back.
    waking: BTreeSet<ChannelId>,
}

/// One of them.
#[derive(Debug)]
pub struct Channel {
    /// What it is found by.
    pub id: ChannelId,
    /// Its name.
    pub name: Rc<[u8]>,
    /// Whose places are told on it.
    user: Box<[u8]>,
    asleep: Cell<bool>,
    /// Its places: one of them may be the first in a queue, and keep from the next what that may have.
    places: RefCell<Order<Ticket>>,
    /// Those of its places that have been laid aside.
    aside: RefCell<BTreeSet<Ticket>>,
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

    /// Is this one of its places that have been laid aside?
    pub fn has_aside(&self, ticket: Ticket) -> bool {
        self.aside.borrow().contains(&ticket)
    }

    /// One more of its places.
    pub fn join(&self, ticket: Ticket) {
        self.places.borrow_mut().insert(ticket);
    }

    /// One less.
    pub fn leave(&self, ticket: Ticket) {
        self.put_back(ticket);
        self.places.borrow_mut().remove(ticket);
    }

    /// One of its places has been laid aside.
    pub fn lay_aside(&self, ticket: Ticket) {
        self.aside.borrow_mut().insert(ticket);
    }

    /// One of its places stands where it stood.
    fn put_back(&self, ticket: Ticket) {
        self.aside.borrow_mut().remove(&ticket);
    }
}

impl Channels {
    /// For one more place of this user.
    pub fn open(&mut self, notify: Notify<'_>, user: &[u8]) -> Heard {
        let found = (self.ids).get(&(Box::from(user), Rc::from(notify.channel)));
        let found = found.and_then(|id| self.by_id.get(id)).map(Rc::clone);
        Heard {
            channel: found.unwrap_or_else(|| self.open_new(notify.channel, user)),
            text: Box::from(notify.text),
        }
    }

    fn open_new(&mut self, name: &[u8], user: &[u8]) -> Rc<Channel> {
        self.last_id = self.last_id.saturating_add(1);
        let channel = Rc::new(Channel {
            id: self.last_id,
            name: Rc::from(name),
            user: Box::from(user),
            asleep: Cell::new(false),
            places: RefCell::default(),
            aside: RefCell::default(),
        });
        let found_by = (channel.user.clone(), Rc::clone(&channel.name));
        self.ids.insert(found_by, channel.id);
        self.by_id.insert(channel.id, Rc::clone(&channel));
        channel
    }

    /// A place that has left the channel is told nothing there any more. The last one closes it.
    pub fn close(&mut self, heard: Heard) {
        let channel = heard.channel;
        // Ours, and that of the table.
        if Rc::strong_count(&channel) <= 2 {
            if channel.is_asleep() {
                self.asleep = self.asleep.saturating_sub(1);
            }
            self.waking.remove(&channel.id);
            self.by_id.remove(&channel.id);
            (self.ids).remove(&(channel.user.clone(), Rc::clone(&channel.name)));
        }
    }

    /// All places of this channel sleep from now on. Did they not do so already?
    pub fn send_to_sleep(&mut self, id: ChannelId) -> bool {
        let Some(channel) = self.by_id.get(&id) else {
            return false;
        };
        let falls_asleep = !channel.asleep.replace(true);
        if falls_asleep {
            self.asleep = self.asleep.saturating_add(1);
            self.waking.remove(&id);
        }
        falls_asleep
    }

    /// The next place of a channel that sleeps.
    pub fn next_place(&self, id: ChannelId, from: Ticket) -> Option<Ticket> {
        let channel = self.by_id.get(&id)?;
        let places = channel.places.borrow();
        let next = places.from(from).next();
        next.filter(|_| channel.is_asleep())
    }

    /// They sleep no more, from now on. Those that have been laid aside are to be put back.
    pub fn wake(&mut self, channel: &Channel) {
        if channel.asleep.replace(false) {
            self.asleep = self.asleep.saturating_sub(1);
            if !channel.aside.borrow().is_empty() {
                self.waking.insert(channel.id);
            }
        }
    }

    /// One of this channel's places stands where it stood. With the last of them the channel is awake: very many
    /// of one place each must not be gone through by each that asks.
    pub fn put_back(&mut self, channel: &Channel, ticket: Ticket) {
        channel.put_back(ticket);
        if channel.aside.borrow().is_empty() {
            self.waking.remove(&channel.id);
        }
    }

    /// Those of which some places have yet to be put back.
    pub fn waking(&self) -> impl Iterator<Item = ChannelId> {
        self.waking.iter().copied()
    }

    /// How many those are.
    pub fn count_waking(&self) -> usize {
        self.waking.len()
    }

    /// One of the places that have yet to be put back.
    pub fn next_to_put_back(&mut self) -> Option<Ticket> {
        while let Some(&id) = self.waking.first() {
            let channel = self.by_id.get(&id);
            let next = channel.and_then(|channel| channel.aside.borrow().first().copied());
            if next.is_some() {
                return next;
            }
            self.waking.remove(&id);
        }
        None
    }

    /// Does any of them sleep?
    pub fn any_asleep(&self) -> bool {
        self.asleep > 0
    }

    /// How many places are told on the channels of this name.
    #[cfg(test)]
    pub fn places(&self, name: &[u8]) -> usize {
        let named = self.by_id.values().filter(|channel| *channel.name == *name);
        named.map(|channel| channel.places.borrow().len()).sum()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}
