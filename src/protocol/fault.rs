//! What can be wrong with a command, in the server's own words where it has any.

use super::args::{LONGEST_TEXT, MOST_KEYS};
use crate::lock::{LONGEST_OWNER, Ms, NotALock};

/// Why a command was refused. Nothing has been changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Fault {
    #[error("ERR wrong number of arguments for '{0}' command")]
    Arity(&'static str),
    /// Words that don't go together, or one that lacks another; in words.
    #[error("ERR syntax error: {0}")]
    Words(&'static str),
    #[error("ERR syntax error: {0} needs a number")]
    NoNumber(&'static str),
    #[error("ERR syntax error: {0} is given twice")]
    Twice(&'static str),
    #[error("ERR syntax error: there is no option {0}")]
    NoOption(String),
    /// The argument and its value, in words.
    #[error("ERR value is not an integer or out of range: {0}")]
    Integer(String),
    /// The command, and what is wrong with the ttl.
    #[error("ERR invalid expire time in '{0}' command: {1}")]
    Expire(&'static str, String),
    /// What is wrong with the time after BLOCK, and what it is.
    #[error("ERR timeout is {0}: the time after BLOCK is {1}")]
    Timeout(&'static str, String),
    /// The time after QUEUE is not positive, longer than an operator allows, or ends too far in the future: the longest,
    /// and what it is. Clients read the longest from this text, also those of 1.0: from the words up to `milliseconds`, or
    /// as the largest number that is not in quotes.
    #[error(
        "ERR lease must be 1 to {0} milliseconds (lock.max-place-ttl): the time after QUEUE is {1}"
    )]
    Lease(Ms, String),
    /// Which of them, and how long it is.
    #[error("ERR channel and message must be 1 to {LONGEST_TEXT} bytes: the {0} has {1}")]
    NotifyLength(&'static str, usize),
    #[error("CROSSSLOT Keys and channel in request don't hash to the same slot")]
    ChannelElsewhere,
    /// The caller's user must not do this, in the server's words.
    #[error("NOPERM {0}")]
    NoPermission(String),
    #[error("ERR owner must be 1 to {LONGEST_OWNER} bytes, not {0}")]
    OwnerLength(usize),
    /// The member that marks a shared lock.
    #[error("ERR owner is reserved: \"@lock:shared\" marks shared locks")]
    OwnerReserved,
    #[error("ERR numkeys should be greater than 0, not {0}")]
    TooFewKeys(String),
    #[error("ERR numkeys should not be greater than {MOST_KEYS}, and is {0}")]
    TooManyKeys(usize),
    /// How many keys there are to be, how many arguments follow, and which are missing because of that.
    #[error(
        "ERR Number of keys can't be greater than number of args: numkeys is {0}, and {1} arguments follow it{2}"
    )]
    KeysMissing(usize, usize, &'static str),
    #[error("ERR LOCK commands can't be run inside LOCK.GUARD")]
    OwnCommandInside,
    #[error("NOTOWNER this owner does not hold the lock")]
    NotOwner,
    #[error(transparent)]
    NotALock(#[from] NotALock),
    #[error("QUEUEFULL too many requests wait already (lock.max-waiters, lock.max-waiters-total)")]
    QueueFull,
    /// More wait than the request was to wait behind: so many, and so many it would have.
    #[error("QUEUEFULL {0} waiting in the queue, and MAXQUEUE is {1}")]
    Behind(u64, u64),
    #[error(
        "ERR QUEUE can't wait for a lock that its owner holds already: release it first, or wait with BLOCK"
    )]
    HoldsSome,
    #[error(
        "NOUPGRADE this owner shares the lock, and an upgrade to an exclusive hold can't wait: release it first, or retry"
    )]
    NoUpgrade,
    /// Which lock its owner waits for, if the caller may know that.
    #[error(
        "ONEWAIT this owner already waits for {0}: LOCK.RELEASE it first, or acquire all of them with one LOCK.MACQUIRE"
    )]
    OneWait(String),
    /// Which lock its owner was granted.
    #[error("ONEWAIT this owner was granted {0} and has not received the reply: retry that first")]
    Undelivered(String),
    #[error("REPLACED a later request of this owner has taken over this wait")]
    Replaced,
    /// So many replicas are to acknowledge it, and fewer are connected: so many.
    #[error("NOREPLICAS lock needs {0} replicas; connected: {1}")]
    FewReplicas(u8, usize),
    #[error("NOREPLICAS lock was not acknowledged by {0} replicas in time (lock.replica-timeout)")]
    NotReplicated(u8),
    #[error(
        "ERR REPLICAS is not allowed in MULTI, scripts, functions and other modules' calls, where no reply can wait: use REPLICAS 0"
    )]
    ReplicasDenied,
    #[error(
        "TOOCOMPLEX deadlock check aborted: too many requests wait for each other; retry later"
    )]
    TooComplex,
    /// The owner would wait for itself; in words.
    #[error("DEADLOCK {0}")]
    Deadlock(String),
}
