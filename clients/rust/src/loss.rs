use std::fmt;
use std::time::Duration;

/// How a hold was lost, as far as this process knows.
///
/// What happened in the server, and by whose hand, is in its `LOCK.LOG`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub(crate) cause: Cause,
    pub(crate) after: Option<Duration>,
}

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The server said that the owner does not hold the lock: the hold expired there, or was broken, deleted or
    /// evicted.
    NotOwner,
    /// No renewal was answered until the ttl was over.
    Unanswered,
    /// It was held for longer than it was to be renewed: see [`Lock::renew_for`](crate::Lock::renew_for).
    Capped,
    /// The same owner was granted the lock again, with a greater fencing token: this hold had ended before.
    Superseded,
    /// It is not renewed any more, because tokio's runtime has ended.
    Unattended,
}

impl Loss {
    pub(crate) fn new(cause: Cause, after: Option<Duration>) -> Loss {
        Loss { cause, after }
    }

    /// Why.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// When it was found to be lost: so long after it was asked for by the request that was granted. None if that is
    /// not known.
    pub fn after(&self) -> Option<Duration> {
        self.after
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lock was lost while held: ")?;
        f.write_str(match self.cause {
            Cause::NotOwner => "the server says that this owner does not hold it any more",
            Cause::Unanswered => "no renewal was answered before it expired",
            Cause::Capped => "it expired, because it was to be renewed no longer",
            Cause::Superseded => "its owner was granted it again, with another fencing token",
            Cause::Unattended => "tokio's runtime has ended, and it is not renewed",
        })?;
        match self.after {
            Some(after) => write!(f, " (found {after:.1?} after it was acquired)"),
            None => Ok(()),
        }
    }
}
