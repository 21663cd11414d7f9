//! What is asked for: a lock, by whom, in which mode, for how long; and what may come of it.

use super::deadlock::found::Deadlock;
use super::deadlock::steps::TooLong;
use super::fence::Fence;
use super::queue::ticket::Ticket;
use super::time::Ms;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The lock alone.
    Exclusive,
    /// The lock beside others who share it.
    Shared,
    /// The same, but only while fewer than so many others do.
    Limit(u64),
}

/// How an owner holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Alone.
    Exclusive,
    /// Beside others who share it.
    Shared,
}

impl Mode {
    /// How the lock is held when this is granted.
    pub fn hold(self) -> Hold {
        match self {
            Self::Exclusive => Hold::Exclusive,
            Self::Shared | Self::Limit(_) => Hold::Shared,
        }
    }

    /// Can this be granted while so many others share the lock?
    pub fn room_beside(self, others: usize) -> bool {
        match self {
            Self::Exclusive => others == 0,
            Self::Shared => true,
            Self::Limit(most) => u64::try_from(others).is_ok_and(|others| others < most),
        }
    }
}

/// A request for a lock, or for several at once.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who wants it.
    pub owner: &'a [u8],
    /// For how long, from the grant.
    pub ttl: Ms,
    /// Alone, or beside others.
    pub mode: Mode,
    /// Whether to wait for it.
    pub patience: Patience,
    /// The connection that asks.
    pub client: u64,
    /// Does the hold end with that connection?
    pub session: bool,
}

/// How long a request may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    Try,
    /// Until then.
    Until(Ms),
    /// Until it is granted.
    Forever,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The owner holds the lock, by this number.
    Held(Fence),
    /// Others hold it, or come first.
    Busy,
    /// It waits; this is its ticket. Its client must be blocked.
    Waiting(Ticket),
}

/// Why a request was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key is no lock.
    NotALock(NotALock),
    /// It would wait for itself.
    Deadlock(Deadlock),
    /// Nobody can tell whether it would: too many wait for each other.
    TooComplex,
    /// There is no room for it in the queues.
    QueueFull,
    /// Its owner would stand in too many queues at once.
    TooManyQueues,
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

/// The key is no lock, and stays as it is.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
pub struct NotALock;
