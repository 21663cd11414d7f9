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

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::lock::waiting::queue::order::Order;
use crate::lock::words::Ticket;

/// The number of a channel. No two channels have had the same one.
pub type ChannelId = u64;

/// The user whose places have a channel, and the channel's name.
type UserAndName = (Box<[u8]>, Rc<[u8]>);

/// All channels that places have. A channel without places is closed.
#[derive(Debug, Default)]
pub struct Channels {
    /// By their users and names.
    ids: BTreeMap<UserAndName, ChannelId>,
    by_id: BTreeMap<ChannelId, Channel>,
    last_id: ChannelId,
    asleep: usize,
    /// The channels that are waking: some of their places are yet to be put back.
    waking: BTreeSet<ChannelId>,
}

/// One user's channel.
#[derive(Debug)]
struct Channel {
    /// The name on which messages are published.
    name: Rc<[u8]>,
    /// The user whose places have it.
    user: Box<[u8]>,
    asleep: bool,
    /// All places that have this channel.
    places: Order<Ticket>,
    /// The places among them that are laid aside: out of their queues.
    aside: BTreeSet<Ticket>,
}

/// What is published for a place, and where.
#[derive(Debug)]
pub struct NotifyTarget {
    pub channel: ChannelId,
    pub text: Box<[u8]>,
}

impl Channels {
    /// Adds a place to the channel of this user and name, new if there is none.
    pub fn join(&mut self, name: &[u8], user: &[u8], ticket: Ticket) -> ChannelId {
        let next = self.last_id.saturating_add(1);
        let id = *(self.ids).entry((Box::from(user), Rc::from(name))).or_insert(next);
        self.last_id = self.last_id.max(id);
        let channel = self.by_id.entry(id).or_insert_with(|| Channel {
            name: Rc::from(name),
            user: Box::from(user),
            asleep: false,
            places: Order::default(),
            aside: BTreeSet::new(),
        });
        channel.places.insert(ticket);
        id
    }

    /// Removes a place from its channel, which is closed if it was the last.
    pub fn leave(&mut self, id: ChannelId, ticket: Ticket) {
        let Some(channel) = self.by_id.get_mut(&id) else {
            return;
        };
        channel.aside.remove(&ticket);
        channel.places.remove(ticket);
        if channel.places.is_empty()
            && let Some(channel) = self.by_id.remove(&id)
        {
            self.asleep = self.asleep.saturating_sub(channel.asleep.into());
            self.waking.remove(&id);
            self.ids.remove(&(channel.user, channel.name));
        }
    }

    /// The name on which this channel's messages are published.
    pub fn name(&self, id: ChannelId) -> Option<&Rc<[u8]>> {
        self.by_id.get(&id).map(|channel| &channel.name)
    }

    pub fn is_asleep(&self, id: ChannelId) -> bool {
        self.by_id.get(&id).is_some_and(|channel| channel.asleep)
    }

    /// Notes that a place is laid aside.
    pub fn lay_aside(&mut self, id: ChannelId, ticket: Ticket) {
        if let Some(channel) = self.by_id.get_mut(&id) {
            channel.aside.insert(ticket);
        }
    }

    /// Notes that a place is not laid aside any more. With the last one the channel is awake.
    pub fn put_back(&mut self, id: ChannelId, ticket: Ticket) {
        if let Some(channel) = self.by_id.get_mut(&id) {
            channel.aside.remove(&ticket);
            if channel.aside.is_empty() {
                self.waking.remove(&id);
            }
        }
    }

    /// Puts a channel to sleep. Returns true if it was awake or waking.
    pub fn send_to_sleep(&mut self, id: ChannelId) -> bool {
        let Some(channel) = self.by_id.get_mut(&id).filter(|channel| !channel.asleep) else {
            return false;
        };
        channel.asleep = true;
        self.asleep = self.asleep.saturating_add(1);
        self.waking.remove(&id);
        true
    }

    /// Wakes a channel. Its places that are laid aside are put back later.
    pub fn wake(&mut self, id: ChannelId) {
        if let Some(channel) = self.by_id.get_mut(&id).filter(|channel| channel.asleep) {
            channel.asleep = false;
            self.asleep = self.asleep.saturating_sub(1);
            if !channel.aside.is_empty() {
                self.waking.insert(id);
            }
        }
    }

    /// The next place of a channel from this ticket on; none if the channel is not asleep.
    pub fn next_place(&self, id: ChannelId, from: Ticket) -> Option<Ticket> {
        let channel = self.by_id.get(&id).filter(|channel| channel.asleep)?;
        channel.places.from(from).next()
    }

    pub fn count_waking(&self) -> usize {
        self.waking.len()
    }

    /// A place that is to be put back next.
    pub fn next_to_put_back(&mut self) -> Option<Ticket> {
        while let Some(id) = self.waking.first() {
            let next = self.by_id.get(id).and_then(|channel| channel.aside.first());
            if next.is_some() {
                return next.copied();
            }
            self.waking.pop_first();
        }
        None
    }

    pub fn any_asleep(&self) -> bool {
        self.asleep > 0
    }

    #[cfg(test)]
    pub fn places(&self, name: &[u8]) -> usize {
        let named = self.by_id.values().filter(|channel| *channel.name == *name);
        named.map(|channel| channel.places.len()).sum()
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}
