//! A place in the queue: a request that waits without a blocked client. It belongs to its owner and
//! to the set of locks, not to a connection, and is kept until its lease is over; asking again
//! prolongs that.
//!
//! A place is a waiter, of whose states it knows three:
//!
//! | state | what has happened | what may come next |
//! |---|---|---|
//! | `Waiting` | it stands in the queue of each of its locks | granted; its end |
//! | `Granted` | the holds are written, and last until they are to be claimed | claimed, which is its end; not claimed in time: asleep, or its end |
//! | `Asleep` | it stands aside: it is passed over, and nobody waits for it | its owner asks: waiting, where it stood; its end |
//!
//! Its end is that of its lease, or comes before that: its owner has released the lock, claimed the
//! grant, or asked for another mode; its user has lost the right to the locks; the connection that it
//! is tied to has closed; the server becomes a replica or is drained; its slot has left.

pub mod ask;
pub mod channel;
pub mod claim;
pub mod due;
pub mod end;
pub mod kept;
pub mod sleep;

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::lock::place::channel::{ChannelId, Channels, Heard};
use crate::lock::queue::ticket::Ticket;
use crate::lock::request::Asker;
use crate::lock::slot::Slots;
use crate::lock::time::Ms;

/// What there is of all places beside the waiters that they are.
#[derive(Debug, Default)]
pub struct Places {
    /// When which grant is claimed no more.
    pub claims: BTreeSet<(Ms, Ticket)>,
    /// Those that end with a connection.
    pub sessions: BTreeSet<(u64, Ticket)>,
    /// Where their owners are told.
    pub channels: Channels,
    /// What is to be published.
    pub messages: VecDeque<Notice>,
    /// Channels that have been sent to sleep, whose places have still to be laid aside: from which on.
    pub falling: VecDeque<(ChannelId, Ticket)>,
    /// Many are to end: from which on that has still to be seen to, and up to which.
    pub endings: VecDeque<(RangeInclusive<Ticket>, Ending)>,
    /// When the server was last seen to keep those back who would ask, and when that was looked at.
    pub kept_back: Ms,
    /// Did it do so then?
    pub is_kept_back: bool,
    pub looked: Ms,
}

/// Which places are to end.
#[derive(Clone, Debug)]
pub enum Ending {
    /// All: the server is a replica now, or no one is to wait any more.
    All,
    /// Those whose locks are in these slots.
    InSlots(Rc<Slots>),
}

/// A message, while it is not known yet whether it is still to be sent.
#[derive(Debug)]
pub enum Notice {
    /// It is this one's turn.
    Turn(Ticket),
    /// This one's place is lost.
    Lost(Box<Place>),
}

/// What makes a waiter a place.
#[derive(Debug)]
pub struct Place {
    /// For how long it is kept after its owner has asked.
    pub length: Ms,
    /// Whom a message tells when to ask again.
    pub notify: Option<Heard>,
    /// Who asked last.
    pub asker: Rc<Asker>,
    /// Until when its grant is to be claimed, if it has been granted.
    pub claim_ends: Ms,
}
