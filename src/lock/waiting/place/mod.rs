//! A place in the queue: a request that waits without a blocked client. It belongs to an owner and a set
//! of locks, not to a connection, and is kept until its lease ends; the owner renews the lease by asking
//! again.
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

pub mod ask;
pub mod claim;
pub mod end;
pub mod kept;
pub mod sleep;

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::lock::words::{Asker, Ms, Notify, Now, Slots, Ticket};

/// What is stored of places in addition to their [`Waiter`](crate::lock::waiting::queue::waiter::Waiter)s.
#[derive(Debug, Default)]
pub struct Places {
    /// Grants that are not claimed yet, by when each has to be.
    pub claims: BTreeSet<(Ms, Ticket)>,
    /// Places that end with a connection, by that connection.
    pub sessions: BTreeSet<(u64, Ticket)>,
    /// Notifications that are to be published.
    pub messages: VecDeque<Notice>,
    /// Which places are to end, and among which tickets they are still to be looked for.
    pub endings: VecDeque<(RangeInclusive<Ticket>, Ending)>,
    /// Since when owners can ask: leases and claims that began before it go on from here.
    can_ask_since: Ms,
    /// When the last tick began.
    ticked: Ms,
}

#[derive(Clone, Debug)]
pub enum Ending {
    /// All: the server is a replica now, or is drained.
    All,
    /// Those whose locks are in these slots, which have left.
    InSlots(Rc<Slots>),
}

/// A notification that is to be published, if it still applies by then.
#[derive(Debug)]
pub enum Notice {
    /// This place has been granted its locks.
    Granted(Ticket),
    /// A place was lost: its message.
    Lost(Box<Message>),
}

/// A message to publish, which tells the owner of a place to ask again.
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
    /// The message that tells the owner to ask again, if it wants one.
    pub notify: Option<Notification>,
    /// The user that last asked for it.
    pub asker: Rc<Asker>,
    /// When its grant has to be claimed at the latest, if it has been granted.
    pub claim_ends: Ms,
}

const _: () = assert!(size_of::<Place>() == 48, "there may be a million places");

impl Place {
    /// A place that this user has asked for, and whose message is yet to be said.
    pub fn new(length: Ms, asker: Rc<Asker>) -> Self {
        Self { length, notify: None, asker, claim_ends: 0 }
    }
}

/// What is published for a place, and where.
#[derive(Debug)]
pub struct Notification {
    /// The channel, and behind it the text.
    words: Box<[u8]>,
    channel_length: u16,
    /// Has no client received the message that it is the owner's turn?
    pub is_unheard: bool,
}

impl Notification {
    pub fn new(Notify { channel, text }: Notify<'_>) -> Self {
        Self {
            words: [channel, text].concat().into(),
            channel_length: u16::try_from(channel.len()).unwrap_or(u16::MAX),
            is_unheard: false,
        }
    }
}

impl Place {
    /// The message that tells its owner to ask again, if it wants one.
    fn message(&self, turn_of: Option<Ticket>) -> Option<Message> {
        let Notification { words, channel_length, .. } = self.notify.as_ref()?;
        let (channel, text) = words.split_at_checked((*channel_length).into())?;
        let (channel, text) = (Box::from(channel), Box::from(text));
        Some(Message { channel, text, asker: Rc::clone(&self.asker), turn_of })
    }
}

impl Places {
    /// Is there anything to do for places that waits for no time to come?
    pub fn have_work(&self) -> bool {
        !self.messages.is_empty() || !self.endings.is_empty()
    }

    /// A place that has not claimed its grant in time.
    pub fn overdue_claim(&self, now: Now) -> Option<Ticket> {
        let first = self.claims.first();
        first.filter(|&&(end, _)| end < now.ms()).map(|&(_, ticket)| ticket)
    }

    /// When the first grant will be overdue that is not claimed.
    pub fn next_claim(&self) -> Option<Ms> {
        self.claims.first().map(|&(end, _)| end.saturating_add(1))
    }
}
