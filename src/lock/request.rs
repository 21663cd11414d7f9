//! What is asked for: a lock, by whom, in which mode, for how long; and what may come of it.

use super::deadlock::found::Deadlock;
use super::deadlock::steps::TooLong;
use super::fence::Fence;
use super::queue::ticket::Ticket;
use super::time::Ms;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The lock alone.
    Exclusive,
    /// The lock beside others who share it, of whom there may be as many as share any lock at most.
    Shared,
    /// The lock beside others who share it, while they are fewer than that.
    Limit(u64),
}

/// How an owner holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

    /// Can this be granted while so many others share the lock, which `max_sharers` may share at most?
    pub fn room_beside(self, others: usize, max_sharers: u64) -> bool {
        let most = match self {
            Self::Exclusive => 1,
            Self::Shared => max_sharers,
            Self::Limit(most) => most.min(max_sharers),
        };
        u64::try_from(others).is_ok_and(|others| others < most)
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
    pub patience: Patience<'a>,
    /// The connection that asks.
    pub client: u64,
    /// Does the hold end with that connection?
    pub session: bool,
}

/// How a request waits, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience<'a> {
    /// Not at all.
    Try,
    /// Its client is blocked, until then.
    Until(Ms),
    /// Its client is blocked until it is granted.
    Forever,
    /// Its owner has a place in the queue, and asks again.
    Place(Lease<'a>),
}

/// What keeps a place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease<'a> {
    /// For how long after its owner has last asked.
    pub length: Ms,
    /// Who is told when it is its turn.
    pub notify: Option<Notify<'a>>,
    /// By which command its owner asks.
    pub command: AskedBy,
}

/// A message that says that it is time to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify<'a> {
    /// Where it is published.
    pub channel: &'a [u8],
    /// What it says, in words of the client's own.
    pub text: &'a [u8],
}

/// Who has asked for a place, so that their rights can be asked about later.
#[derive(Debug, PartialEq, Eq)]
pub struct Asker {
    /// The name of the user.
    pub user: Box<[u8]>,
    /// By which command?
    pub command: AskedBy,
}

/// The commands that ask for locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedBy {
    /// `LOCK.ACQUIRE`
    Acquire,
    /// `LOCK.MACQUIRE`
    Macquire,
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
    /// It waits without a client; so many come before it in the longest of its queues.
    Place(usize),
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
    /// A place is for locks of which its owner holds none.
    HoldsSome,
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
