//! A place in the queue: a request that waits without a blocked client. It belongs to an owner and a set
//! of locks, not to a connection, and is kept until its lease ends; the owner renews the lease by asking
//! again.
//!
//! A place is a waiter that has three of a waiter's states:
//!
//! | state | what has happened | what may come next |
//! |---|---|---|
//! | `Waiting` | it is in the queue of each of its locks | granted; its end |
//! | `Granted` | the holds are written, and expire unless they are claimed in time | claimed, which is its end; not claimed in time: asleep, or its end |
//! | `Asleep` | it is out of the queues, and no other waiter waits for it | its owner asks: waiting again, in order of its ticket; its end |
//!
//! A place ends with its lease, or earlier: when its owner releases the lock, claims the grant or asks for
//! another mode; when its user loses the right to the locks; when the connection that it is tied to closes;
//! when the server becomes a replica or is drained; when its slot leaves, if the server says so.

pub mod ask;
pub mod channel;
pub mod claim;
pub mod end;
pub mod kept;
pub mod sleep;

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::lock::waiting::place::channel::{ChannelId, Channels, NotifyTarget};
use crate::lock::words::{Asker, Ms, Now, Slots, Ticket};

/// What is stored of places in addition to their [`Waiter`](crate::lock::waiting::queue::waiter::Waiter)s.
#[derive(Debug, Default)]
pub struct Places {
    /// Grants that are not claimed yet, by when each has to be.
    pub claims: BTreeSet<(Ms, Ticket)>,
    /// Places that end with a connection, by that connection.
    pub sessions: BTreeSet<(u64, Ticket)>,
    pub channels: Channels,
    /// Notifications that are to be published.
    pub messages: VecDeque<Notice>,
    /// Channels that have been sent to sleep while places of theirs are yet to be laid aside, and from which
    /// ticket on.
    pub falling: VecDeque<(ChannelId, Ticket)>,
    /// Which places are to end, and among which tickets they are still to be looked for.
    pub endings: VecDeque<(RangeInclusive<Ticket>, Ending)>,
    /// When the server was last seen to keep owners from asking.
    kept_back: Ms,
    /// Did it do so when that was last checked?
    is_kept_back: bool,
    /// When that was last checked.
    looked: Ms,
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
    pub channel: Rc<[u8]>,
    /// The id by which the channel's places are found.
    pub id: u64,
    pub text: Box<[u8]>,
    /// The user on whose behalf it is published.
    pub asker: Rc<Asker>,
}

/// What makes a waiter a place.
#[derive(Debug)]
pub struct Place {
    /// How long the lease is, from when the owner last asked.
    pub length: Ms,
    /// The message that tells the owner to ask again, if it wants one.
    pub notify: Option<NotifyTarget>,
    /// The user that last asked for it.
    pub asker: Rc<Asker>,
    /// When its grant has to be claimed at the latest, if it has been granted.
    pub claim_ends: Ms,
}

impl Places {
    /// The message that tells the owner of this place to ask again, if it wants one.
    fn message(&self, place: &Place) -> Option<Message> {
        let NotifyTarget { channel: id, text } = place.notify.as_ref()?;
        Some(Message {
            channel: Rc::clone(self.channels.name(*id)?),
            id: *id,
            text: text.clone(),
            asker: Rc::clone(&place.asker),
        })
    }

    /// Is there anything to do for places that waits for no time to come?
    pub fn have_work(&self) -> bool {
        !self.messages.is_empty()
            || !self.endings.is_empty()
            || self.channels.count_waking() > 0
            || !self.falling.is_empty()
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
