//! What can be wrong with a command, in the server's own words where it has any.

use super::args::{LONGEST_TEXT, MOST_KEYS};
use crate::lock::{LONGEST_OWNER, MOST_QUEUES, Ms, NotALock};

/// Why a command was refused. Nothing has been changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Fault {
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(&'static str),
    /// A word too many, or one that is missing.
    #[error("ERR syntax error")]
    Syntax,
    /// Words that don't go together, or one that lacks another; in words.
    #[error("ERR syntax error: {0}")]
    Words(&'static str),
    #[error("ERR syntax error: {0} is given twice")]
    Twice(&'static str),
    #[error("ERR syntax error: there is no option {0}")]
    NoOption(String),
    #[error("ERR value is not an integer or out of range: LIMIT must be 1 or more")]
    Limit,
    #[error("ERR syntax error: MODES needs EXCLUSIVE, SHARED or a limit of 1 or more for each key")]
    Modes,
    #[error("ERR value is not an integer or out of range: MAXQUEUE must be 0 or more")]
    MaxQueue,
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// A ttl that is not positive, or ends too far in the future.
    #[error("ERR invalid expire time in '{0}' command")]
    Expire(&'static str),
    #[error("ERR invalid expire time in '{0}' command: lock.max-ttl allows {1} milliseconds")]
    MaxTtl(&'static str, Ms),
    #[error("ERR timeout is not an integer or out of range")]
    TimeoutNotAnInteger,
    #[error("ERR timeout is negative")]
    TimeoutNegative,
    #[error("ERR timeout is out of range")]
    TimeoutOutOfRange,
    /// A lease that is not positive, longer than an operator allows, or ends too far in the future.
    #[error("ERR lease must be 1 to {0} milliseconds")]
    Lease(Ms),
    #[error("ERR channel and message must be 1 to {LONGEST_TEXT} bytes")]
    NotifyLength,
    #[error("CROSSSLOT Keys and channel in request don't hash to the same slot")]
    ChannelElsewhere,
    /// The caller's user must not do this, in the server's words.
    #[error("NOPERM {0}")]
    NoPermission(String),
    #[error("ERR owner must be 1 to {LONGEST_OWNER} bytes")]
    OwnerLength,
    /// The member that marks a shared lock.
    #[error("ERR owner is reserved")]
    OwnerReserved,
    #[error("ERR numkeys should be greater than 0")]
    TooFewKeys,
    #[error("ERR numkeys should not be greater than {MOST_KEYS}")]
    TooManyKeys,
    #[error("ERR Number of keys can't be greater than number of args")]
    KeysMissing,
    #[error("ERR LOCK commands can't be run inside LOCK.GUARD")]
    OwnCommandInside,
    #[error("NOTOWNER this owner does not hold the lock")]
    NotOwner,
    #[error(transparent)]
    NotALock(#[from] NotALock),
    #[error(
        "QUEUEFULL lock.max-waiters or lock.max-waiters-total leaves no room for this request to wait"
    )]
    QueueFull,
    /// More wait than the request was to wait behind: so many, and so many it would have.
    #[error("QUEUEFULL {0} waiting in the queue, and MAXQUEUE is {1}")]
    Behind(u64, u64),
    #[error("QUEUEFULL this owner would stand in more than {MOST_QUEUES} queues at once")]
    TooManyQueues,
    #[error(
        "ERR QUEUE is for locks that their owner does not hold: release first, or wait with BLOCK"
    )]
    HoldsSome,
    /// A grace would have to be written for each of those who share the lock.
    #[error("ERR more than lock.max-sharers share this lock: it can only be broken without GRACE")]
    TooManySharers,
    #[error(
        "TOOCOMPLEX too many requests wait for each other to tell whether this one would be a deadlock"
    )]
    TooComplex,
    /// The owner would wait for itself; in words.
    #[error("DEADLOCK {0}")]
    Deadlock(String),
}
