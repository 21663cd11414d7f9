//! What can be wrong with a command, in the server's own words where it has any.

use super::args::{LONGEST_TEXT, MOST_KEYS};
use crate::lock::{LONGEST_OWNER, MOST_QUEUES, Ms, NotALock};

/// Why a command was refused. Nothing has been changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Fault {
    /// Too few words, or too many.
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(&'static str),
    /// A word too many, or one that is missing.
    #[error("ERR syntax error")]
    Syntax,
    /// Words that don't go together, or one that lacks another; in words.
    #[error("ERR syntax error: {0}")]
    Words(&'static str),
    /// A word that is said twice.
    #[error("ERR syntax error: {0} is given twice")]
    Twice(&'static str),
    /// A word that is no option.
    #[error("ERR syntax error: there is no option {0}")]
    NoOption(String),
    /// A number of sharers that is no number above 0.
    #[error("ERR value is not an integer or out of range: LIMIT must be 1 or more")]
    Limit,
    /// Too few modes for the keys, or a word that is none.
    #[error("ERR syntax error: MODES needs EXCLUSIVE, SHARED or a limit of 1 or more for each key")]
    Modes,
    /// A length of a queue that is no number.
    #[error("ERR value is not an integer or out of range: MAXQUEUE must be 0 or more")]
    MaxQueue,
    /// No whole number of 64 bits.
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    /// A ttl that is not positive, or ends too far in the future.
    #[error("ERR invalid expire time in '{0}' command")]
    Expire(&'static str),
    /// A ttl that is longer than an operator allows.
    #[error("ERR invalid expire time in '{0}' command: lock.max-ttl allows {1} milliseconds")]
    MaxTtl(&'static str, Ms),
    /// The time to wait is no whole number of 64 bits.
    #[error("ERR timeout is not an integer or out of range")]
    TimeoutNotAnInteger,
    /// The time to wait is less than nothing.
    #[error("ERR timeout is negative")]
    TimeoutNegative,
    /// The time to wait ends too far in the future.
    #[error("ERR timeout is out of range")]
    TimeoutOutOfRange,
    /// A lease that is not positive, longer than an operator allows, or ends too far in the future.
    #[error("ERR lease must be 1 to {0} milliseconds")]
    Lease(Ms),
    /// Nothing, or too much, for a channel's name or a message.
    #[error("ERR channel and message must be 1 to {LONGEST_TEXT} bytes")]
    NotifyLength,
    /// A channel in another slot than the keys.
    #[error("CROSSSLOT Keys and channel in request don't hash to the same slot")]
    ChannelElsewhere,
    /// The caller's user must not do this, in the server's words.
    #[error("NOPERM {0}")]
    NoPermission(String),
    /// This server lets no module publish.
    #[error("ERR this server lets no module publish messages: ask without NOTIFY")]
    CannotPublish,
    /// No owner, or too long a one.
    #[error("ERR owner must be 1 to {LONGEST_OWNER} bytes")]
    OwnerLength,
    /// The member that marks a shared lock.
    #[error("ERR owner is reserved")]
    OwnerReserved,
    /// No number of keys, or not one above 0.
    #[error("ERR numkeys should be greater than 0")]
    TooFewKeys,
    /// More keys than a command may name.
    #[error("ERR numkeys should not be greater than {MOST_KEYS}")]
    TooManyKeys,
    /// Fewer words than that many keys, and what comes after them.
    #[error("ERR Number of keys can't be greater than number of args")]
    KeysMissing,
    /// A command of this module inside LOCK.GUARD.
    #[error("ERR LOCK commands can't be run inside LOCK.GUARD")]
    OwnCommandInside,
    /// The owner does not hold the lock, so nothing has been run.
    #[error("NOTOWNER this owner does not hold the lock")]
    NotOwner,
    /// The key is something else than a lock.
    #[error(transparent)]
    NotALock(#[from] NotALock),
    /// As many wait as an operator lets wait.
    #[error(
        "QUEUEFULL lock.max-waiters or lock.max-waiters-total leaves no room for this request to wait"
    )]
    QueueFull,
    /// More wait than the request was to wait behind: so many, and so many it would have.
    #[error("QUEUEFULL {0} waiting in the queue, and MAXQUEUE is {1}")]
    Behind(u64, u64),
    /// Its owner waits for as many locks as one may.
    #[error("QUEUEFULL this owner would stand in more than {MOST_QUEUES} queues at once")]
    TooManyQueues,
    /// A place in the queue is for locks of which its owner holds none.
    #[error(
        "ERR QUEUE is for locks that their owner does not hold: release first, or wait with BLOCK"
    )]
    HoldsSome,
    /// A grace would have to be written for each of those who share the lock.
    #[error("ERR more than lock.max-sharers share this lock: it can only be broken without GRACE")]
    TooManySharers,
    /// The search for a deadlock would hold up all other clients.
    #[error(
        "TOOCOMPLEX too many requests wait for each other to tell whether this one would be a deadlock"
    )]
    TooComplex,
    /// The owner would wait for itself; in words.
    #[error("DEADLOCK {0}")]
    Deadlock(String),
}
