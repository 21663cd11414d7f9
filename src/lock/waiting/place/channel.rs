//! Channels on which owners are notified that it is time to ask again.
//!
//! If an owner does not ask in time although a message was published, its process is probably dead, and with
//! it all owners that are notified on that channel. So all places of the channel sleep until one of their
//! owners asks: a dead process delays the others by one claim, not by one for each of its tasks. Each user
//! has channels of its own, so that no user can put another's places to sleep by naming its channel.
//!
//! | a channel | its places | what may come next |
//! |---|---|---|
//! | awake | are in their queues | a claim runs out, or a message has no subscriber: asleep |
//! | asleep | are laid aside (taken out of their queues) in portions; one that comes first is laid aside at once | one of their owners asks: waking |
//! | waking | are put back in portions, the first hundreds of them at once | all are back: awake; or asleep again |

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::lock::waiting::queue::order::Order;
use crate::lock::words::{Notify, Ticket};

/// The number of a channel. No two channels have had the same one.
pub type ChannelId = u64;

/// The user whose places have a channel, and the channel's name.
type UserAndName = (Box<[u8]>, Rc<[u8]>);

#[derive(Debug, Default)]
pub struct Channels {
    /// By their users and names.
    ids: BTreeMap<UserAndName, ChannelId>,
    by_id: BTreeMap<ChannelId, Rc<Channel>>,
    last_id: ChannelId,
    asleep: usize,
    /// The channels that are waking: some of their places are yet to be put back.
    waking: BTreeSet<ChannelId>,
}

/// One user's channel.
#[derive(Debug)]
pub struct Channel {
    /// Its number.
    pub id: ChannelId,
    /// The name on which messages are published.
    pub(super) name: Rc<[u8]>,
    /// The user whose places have it.
    user: Box<[u8]>,
    asleep: Cell<bool>,
    /// All places that have this channel.
    places: RefCell<Order<Ticket>>,
    /// The places among them that are laid aside: out of their queues.
    aside: RefCell<BTreeSet<Ticket>>,
}

/// What is published for a place, and where.
#[derive(Debug)]
pub struct NotifyTarget {
    pub channel: Rc<Channel>,
    pub text: Box<[u8]>,
}

impl Channel {
    pub fn is_asleep(&self) -> bool {
        self.asleep.get()
    }

    pub fn join(&self, ticket: Ticket) {
        self.places.borrow_mut().insert(ticket);
    }

    pub fn leave(&self, ticket: Ticket) {
        self.put_back(ticket);
        self.places.borrow_mut().remove(ticket);
    }

    /// Notes that this place is laid aside.
    pub fn lay_aside(&self, ticket: Ticket) {
        self.aside.borrow_mut().insert(ticket);
    }

    /// Notes that this place is not laid aside any more.
    fn put_back(&self, ticket: Ticket) {
        self.aside.borrow_mut().remove(&ticket);
    }
}

impl Channels {
    /// The channel of this user and name, new if there is none, with the text for one place.
    pub fn open(&mut self, notify: Notify<'_>, user: &[u8]) -> NotifyTarget {
        let found = (self.ids).get(&(Box::from(user), Rc::from(notify.channel)));
        let found = found.and_then(|id| self.by_id.get(id)).map(Rc::clone);
        NotifyTarget {
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

    /// Gives a place's reference to its channel back, after the place has left it. The last one closes the
    /// channel.
    pub fn close(&mut self, target: NotifyTarget) {
        let channel = target.channel;
        // One reference is ours, the other that of `by_id`.
        if Rc::strong_count(&channel) <= 2 {
            if channel.is_asleep() {
                self.asleep = self.asleep.saturating_sub(1);
            }
            self.waking.remove(&channel.id);
            self.by_id.remove(&channel.id);
            (self.ids).remove(&(channel.user.clone(), Rc::clone(&channel.name)));
        }
    }

    /// Puts a channel to sleep. Returns true if it was awake or waking.
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

    /// The next place of a channel from this ticket on; none if the channel is not asleep.
    pub fn next_place(&self, id: ChannelId, from: Ticket) -> Option<Ticket> {
        let channel = self.by_id.get(&id)?;
        let places = channel.places.borrow();
        let next = places.from(from).next();
        next.filter(|_| channel.is_asleep())
    }

    /// Wakes a channel. Its places that are laid aside are put back later.
    pub fn wake(&mut self, channel: &Channel) {
        if channel.asleep.replace(false) {
            self.asleep = self.asleep.saturating_sub(1);
            if !channel.aside.borrow().is_empty() {
                self.waking.insert(channel.id);
            }
        }
    }

    /// Notes that a place is not laid aside any more. With the last one the channel is awake.
    pub fn put_back(&mut self, channel: &Channel, ticket: Ticket) {
        channel.put_back(ticket);
        if channel.aside.borrow().is_empty() {
            self.waking.remove(&channel.id);
        }
    }

    pub fn count_waking(&self) -> usize {
        self.waking.len()
    }

    /// A place that is to be put back next.
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

    pub fn any_asleep(&self) -> bool {
        self.asleep > 0
    }

    #[cfg(test)]
    pub fn places(&self, name: &[u8]) -> usize {
        let named = self.by_id.values().filter(|channel| *channel.name == *name);
        named.map(|channel| channel.places.borrow().len()).sum()
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}
