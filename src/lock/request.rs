//! A request for a lock: its owner, mode and ttl, how it waits, and its outcome.

use std::rc::Rc;

use crate::lock::deadlock::Deadlock;
use crate::lock::deadlock::steps::TooLong;
use crate::lock::words::{Fence, Mode, Ms, Name, Ticket};

/// A request for a lock, or for several at once.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// For whom it asks, how, and for how long.
    pub terms: Terms<'a>,
    /// Whether it waits, and how.
    pub patience: Patience<'a>,
    /// It does not wait behind this many others, or more, in any queue.
    pub max_queue: Option<u64>,
    /// Its owner gets the number when so many replicas have acknowledged the grant; 0 for at once.
    pub replicas: u8,
}

/// What is the same of all holds that a request is granted.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub owner: &'a [u8],
    /// Exclusive, shared or limited.
    pub mode: Mode,
    /// How long they are held, counted from the grant.
    pub ttl: Ms,
    /// For how much longer new holds are written: their owner gets the number, and the ttl begins, when replicas have
    /// acknowledged them.
    pub spare: Ms,
    /// The id of the client that asks.
    pub client: u64,
    /// Do the holds end when that client's connection closes?
    pub session: bool,
}

/// How a request waits, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience<'a> {
    /// It does not wait.
    Try,
    /// Its client is blocked until this time at the latest.
    Until(Ms),
    /// Its client is blocked until it is granted.
    Forever,
    /// Its owner has a place in the queue and retries; no client is blocked.
    Place(Lease<'a>),
}

/// How a place in the queue is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease<'a> {
    /// How long the place is kept after its owner has last asked.
    pub length: Ms,
    /// The message that is published when its turn comes.
    pub notify: Option<Notify<'a>>,
    /// The command by which its owner asks.
    pub command: AskedBy,
}

/// A message by which the owner of a place knows that it is time to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify<'a> {
    /// The channel on which it is published.
    pub channel: &'a [u8],
    /// Its text, as the client has given it.
    pub text: &'a [u8],
}

/// The user that has asked for a place: ACL rights are checked again when its turn comes.
#[derive(Debug, PartialEq, Eq)]
pub struct Asker {
    pub user: Box<[u8]>,
    pub command: AskedBy,
}

/// The commands that ask for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedBy {
    Acquire,
    Macquire,
}

/// The outcome of a request that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The owner holds the lock, with this fencing token.
    Held(Fence),
    /// Other owners hold the lock or come first in its queue.
    Busy,
    /// It waits, with this ticket. The caller must block its client.
    Waiting(Ticket),
    /// It has a place in the queue; this many waiters come before it in the longest of its queues.
    Place(usize),
}

/// Why a request was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    NotALock(NotALock),
    /// It would wait for itself: a deadlock.
    Deadlock(Deadlock),
    /// The search for a deadlock would take too long: too many owners wait for each other.
    TooComplex,
    /// There is no room for it in the queues.
    QueueFull,
    /// This many wait in one of its queues, and it was not to wait behind so many.
    Behind(u64),
    /// It is to be acknowledged by so many replicas, and fewer are connected: so many.
    NoReplicas {
        wanted: u8,
        connected: usize,
    },
    /// It asks for a place, but its owner holds one of the locks already.
    HoldsSome,
    /// Its owner shares one of the locks and asks for it alone: such an upgrade does not wait.
    NoUpgrade,
    /// Its owner waits for these locks already, and they are others.
    OneWait(Rc<[Name]>),
    /// It would have to wait, and asks for a lock that its owner was granted and has not heard of.
    Undelivered(Name),
}

impl From<NotALock> for Refusal {
    fn from(fault: NotALock) -> Self {
        Self::NotALock(fault)
    }
}

impl From<TooLong> for Refusal {
    fn from(_: TooLong) -> Self {
        Self::TooComplex
    }
}

/// The key is not a lock, and is left as it is.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
pub struct NotALock;
