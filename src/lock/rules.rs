//! May this owner have this lock now?

use super::keyspace::Share;
use super::locks::Locks;
use super::name::NameRef;
use super::request::{Hold, Mode, NotALock, Request};
use super::state::{LockState, Turn};
use super::time::{Ms, Now};

/// How a request fits a lock.
///
/// | the lock is | exclusive is asked | shared is asked |
/// |---|---|---|
/// | free | open, in its turn | open, in its turn |
/// | held by its owner alone | held | held |
/// | held by another alone | shut | shut |
/// | shared, by its owner too | open if nobody else shares it | held |
/// | shared by others | shut | open, in its turn, if the limit leaves room |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Its owner holds the lock already, in this mode or a stronger one, until then.
    Held { hold: Hold, until: Option<Ms> },
    /// It may be granted; its owner has this share of the lock already.
    Open { keeps: Option<Share> },
    /// It has to wait.
    Shut,
    /// It has to wait, and won't have it: its owner's share is being ended by an operator.
    Breaking,
}

impl Locks {
    /// How this request fits the lock now; `in_turn` if nobody comes before it.
    #[inline]
    pub(super) fn fit(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        request: &Request<'_>,
        in_turn: bool,
    ) -> Result<Fit, NotALock> {
        let (quarantined, most) = (self.is_quarantined(turn.now), self.limits.max_sharers);
        let open = |open: bool| {
            let open = open && !quarantined;
            if open {
                Fit::Open { keeps: None }
            } else {
                Fit::Shut
            }
        };
        Ok(match self.look(turn, name) {
            LockState::NoLock => return Err(NotALock),
            LockState::Free => open(in_turn && !self.is_reserved(turn, name)),
            LockState::Reserved(reserved) => {
                let may_share = reserved.hold == Hold::Shared
                    && in_turn
                    && !quarantined
                    && request.mode.room_beside(reserved.count, most);
                // Beside those for whom it is reserved, once they are there again.
                if may_share && self.share_again(turn, name) {
                    return self.fit(turn, name, request, in_turn);
                }
                Fit::Shut
            }
            LockState::Exclusive { owner, deadline } if owner == request.owner => Fit::Held {
                hold: Hold::Exclusive,
                until: deadline,
            },
            LockState::Exclusive { .. } => Fit::Shut,
            LockState::Shared { count, .. } => {
                match (self.share_of(turn, name, request.owner), request.mode) {
                    (Some(_), Mode::Exclusive)
                        if self.is_breaking(name, request.owner, Hold::Shared) =>
                    {
                        Fit::Breaking
                    }
                    // An upgrade stands before everybody else.
                    (Some(share), Mode::Exclusive) if count == 1 && !quarantined => {
                        Fit::Open { keeps: Some(share) }
                    }
                    (_, Mode::Exclusive) => Fit::Shut,
                    (Some(share), _) => Fit::Held {
                        hold: Hold::Shared,
                        until: share.deadline,
                    },
                    (None, mode) => open(in_turn && mode.room_beside(count, most)),
                }
            }
        })
    }

    /// Does nobody come to hold a lock, because holds that are not known here may not have run out?
    pub(super) fn is_quarantined(&self, now: Now) -> bool {
        (self.quarantined_until).is_some_and(|until| now.ms() < until)
    }

    /// Is an operator ending this owner's hold?
    pub(super) fn is_breaking(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold) -> bool {
        let entry = self.ledger(name.db).of(name.key, owner, hold);
        entry.is_some_and(|entry| entry.breaking)
    }
}
