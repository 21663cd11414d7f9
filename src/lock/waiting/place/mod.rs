//! A place in the queue: a request that waits without a blocked client. It belongs to an owner and a set
//! of locks, not to a connection, and is kept until its lease ends; the owner renews the lease by retrying.
//!
//! A place is a waiter that has three of a waiter's states:
//!
//! | state | what has happened | what may come next |
//! |---|---|---|
//! | `Waiting` | it is in the queue of each of its locks | granted; its end |
//! | `Granted` | the holds are written, and expire unless they are claimed in time | claimed, which is its end; not claimed in time, or no client has received its message: asleep, or its end |
//! | `Asleep` | it is out of the queues, and no other waiter waits for it | its owner asks: waiting again, in order of its ticket; its end |
//!
//! A place ends with its lease, or earlier: when its owner releases the lock, claims the grant or asks for
//! another mode; when its user loses the right to the locks; when the connection that it is tied to closes;
//! when the server becomes a replica or is drained; when its slot leaves, if the server says so.

pub mod end;
mod kept;

use std::collections::VecDeque;
use std::rc::Rc;

use crate::lock::waiting::place::end::Endings;
use crate::lock::words::{Asker, Lease, Ms, Notify, Ticket};

/// What is stored of places in addition to their [`Waiter`](crate::lock::waiting::waits::waiter::Waiter)s.
#[derive(Debug, Default)]
pub struct Places {
    /// Notifications that are to be published.
    messages: VecDeque<Notice>,
    endings: VecDeque<Endings>,
    /// Since when owners can ask: leases and claims that began before it go on from here.
    can_ask_since: Ms,
    /// When the last tick began.
    ticked: Ms,
}

/// A notification that is to be published, if it still applies by then.
#[derive(Debug)]
pub enum Notice {
    /// This place has been granted its locks.
    Granted(Ticket),
    /// A place was lost: its message.
    Lost(Box<Message>),
}

/// A message to publish, by which the owner of a place knows that it is time to retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel on which it is published.
    pub channel: Box<[u8]>,
    pub text: Box<[u8]>,
    /// The user on whose behalf it is published.
    pub asker: Rc<Asker>,
    /// The place whose turn it is; none if the place was lost.
    pub turn_of: Option<Ticket>,
}

/// What makes a waiter a place.
#[derive(Debug)]
pub struct Place {
    /// How long the lease is, from when the owner last asked.
    pub length: Ms,
    /// The message by which the owner knows that it is time to retry, if it wants one.
    pub notify: Option<Notification>,
    /// The user that last asked for it.
    pub asker: Rc<Asker>,
    /// When its grant has to be claimed at the latest, if it has been granted.
    pub claim_ends: Ms,
}

impl Place {
    /// A place that this user has asked for.
    pub fn new(lease: &Lease<'_>, asker: Rc<Asker>) -> Self {
        let notify = lease.notify.map(Notification::new);
        Self { length: lease.length, notify, asker, claim_ends: 0 }
    }
}

/// What is published for a place, and where.
#[derive(Debug)]
pub struct Notification {
    /// The channel, and behind it the text.
    words: Box<[u8]>,
    channel_length: u16,
    /// Has no client received the message that it is the owner's turn?
    pub is_undelivered: bool,
}

impl Notification {
    pub fn new(Notify { channel, text }: Notify<'_>) -> Self {
        Self {
            words: [channel, text].concat().into(),
            channel_length: u16::try_from(channel.len()).unwrap_or(u16::MAX),
            is_undelivered: false,
        }
    }
}

impl Place {
    /// The message by which its owner knows that it is time to retry, if it wants one.
    fn message(&self, turn_of: Option<Ticket>) -> Option<Message> {
        let Notification { words, channel_length, .. } = self.notify.as_ref()?;
        let (channel, text) = words.split_at_checked((*channel_length).into())?;
        let (channel, text) = (Box::from(channel), Box::from(text));
        Some(Message { channel, text, asker: Rc::clone(&self.asker), turn_of })
    }
}

impl Places {
    /// How many pieces of work there are for places that wait for no time to come.
    pub fn work(&self) -> usize {
        self.messages.len().saturating_add(self.endings.len())
    }

    /// Notifies the owner of this place, if it wants that, that the place is lost.
    pub fn notify_lost(&mut self, place: &Place) {
        let message = place.message(None);
        self.messages.extend(message.map(|message| Notice::Lost(Box::new(message))));
    }
}

#[cfg(test)]
impl Places {
    /// Are places still to be ended that were told of it?
    pub fn have_endings(&self) -> bool {
        !self.endings.is_empty()
    }
}
