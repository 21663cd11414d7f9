//! Decides whether a request may have a lock now.

use crate::lock::engine::locks::Locks;
use crate::lock::holds::open::Opened;
use crate::lock::lock::{LockState, Verdict};
use crate::lock::words::{Hold, Mode, Ms, NameRef, NotALock, Now};

/// One of the locks that a request asks for, as it was opened: true until its key is written. So what grants it takes it
/// away.
#[derive(Debug)]
pub(in crate::lock) struct Part<'n> {
    pub(in crate::lock) name: NameRef<'n>,
    /// How its owner holds it already, and until when.
    pub(in crate::lock) own: Option<(Hold, Option<Ms>)>,
    pub(in crate::lock) verdict: Verdict,
}

impl Part<'_> {
    /// May it not be granted now?
    pub(super) fn is_shut(&self) -> bool {
        self.verdict == Verdict::Shut
    }

    /// Does its owner hold it already, in the mode of the request or a stronger one?
    pub(super) fn is_held(&self) -> bool {
        self.verdict == Verdict::Held
    }

    /// May it be granted to an owner that does not hold it?
    pub(super) fn is_new(&self) -> bool {
        self.verdict == Verdict::Open && self.own.is_none()
    }

    /// Does its owner have a share, and ask for the lock alone?
    pub(super) fn is_upgrade(&self) -> bool {
        self.own.is_some() && !self.is_held()
    }
}

impl Locks {
    /// Returns how a request of the owner that this lock was opened for, in this mode, fits it now; `in_turn` says that no
    /// waiter comes before it.
    #[inline(always)]
    pub(super) fn fit<'n>(
        &self,
        (name, Opened { lock, own }): (NameRef<'n>, Opened),
        (mode, in_turn): (Mode, bool),
        now: Now,
    ) -> Result<Part<'n>, NotALock> {
        if lock == LockState::NoLock {
            return Err(NotALock);
        }
        let seen = lock.seen_by(own.map(|(hold, _)| hold));
        let verdict = match seen.admits(mode, in_turn, self.limits.max_sharers) {
            Verdict::Open if self.quarantine(now).is_some() => Verdict::Shut,
            verdict => verdict,
        };
        Ok(Part { name, own, verdict })
    }

    /// Until when nothing is granted now, if that is so: holds that this server does not know may last till then.
    pub(super) fn quarantine(&self, now: Now) -> Option<Ms> {
        self.quarantined_until.filter(|&until| now.ms() < until)
    }
}
