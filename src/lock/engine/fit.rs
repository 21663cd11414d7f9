//! Decides whether a request may have a lock now.

use crate::lock::engine::locks::Locks;
use crate::lock::holds::open::Opened;
use crate::lock::keyspace::Share;
use crate::lock::lock::{LockState, Verdict};
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, Mode, Ms, NameRef, NotALock, Now};

/// How a request fits a lock: the [`Verdict`] on it, with what is to be known of its owner's hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lock) enum Fit {
    /// Its owner already holds the lock, in this mode or a stronger one, until this time.
    Held { hold: Hold, until: Option<Ms> },
    /// It may be granted. `keeps` is the share that its owner has already, if this is an upgrade.
    Open { keeps: Option<Share> },
    /// It has to wait. `upgrade` says whether its owner has a share, and asks for the lock alone.
    Shut { upgrade: bool },
}

impl Fit {
    /// May it not be granted now?
    pub(in crate::lock) fn is_shut(self) -> bool {
        matches!(self, Self::Shut { .. })
    }

    /// How its owner holds the lock already, if a request that may be granted is for more of that.
    pub(in crate::lock) fn has(self) -> Option<Hold> {
        match self {
            Self::Held { hold, .. } => Some(hold),
            Self::Open { keeps } => keeps.map(|_| Hold::Shared),
            Self::Shut { .. } => None,
        }
    }

    /// Does its owner have a share, and ask for the lock alone?
    pub(in crate::lock) fn is_upgrade(self) -> bool {
        matches!(self, Self::Open { keeps: Some(_) } | Self::Shut { upgrade: true })
    }
}

/// One of the locks that a request asks for.
#[derive(Clone, Copy, Debug)]
pub(in crate::lock) struct Part<'n> {
    pub(in crate::lock) name: NameRef<'n>,
    pub(in crate::lock) fit: Fit,
}

impl Locks {
    /// Returns how a request of this owner, in this mode, fits the lock now; `in_turn` says that no waiter comes
    /// before it.
    #[inline]
    pub(in crate::lock) fn fit(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        asks: &[u8],
        mode: Mode,
        in_turn: bool,
    ) -> Result<Fit, NotALock> {
        let Opened { lock, own } = self.holds.open(turn, name, asks);
        if lock == LockState::NoLock {
            return Err(NotALock);
        }
        let share = own.filter(|&(hold, _)| hold == Hold::Shared);
        let is_upgrade = share.is_some() && mode == Mode::Exclusive;
        let seen = lock.seen_by(own.map(|(hold, _)| hold));
        let in_turn = in_turn && self.has_room_for_group(turn, (name, lock), asks, mode);
        let verdict = seen.admits(mode, in_turn, self.limits.max_sharers);
        if verdict == Verdict::Shut
            || (verdict == Verdict::Open && self.quarantine(turn.now).is_some())
        {
            return Ok(Fit::Shut { upgrade: is_upgrade });
        }
        Ok(match own {
            Some((hold, until)) if verdict == Verdict::Held => Fit::Held { hold, until },
            _ => Fit::Open { keeps: share.map(|(_, deadline)| Share { deadline }) },
        })
    }

    /// Until when nothing is granted now, if that is so: holds that this server does not know may last till then.
    pub(in crate::lock) fn quarantine(&self, now: Now) -> Option<Ms> {
        self.quarantined_until.filter(|&until| now.ms() < until)
    }
}
