//! Decides whether a request may have a lock now.

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
/// | held by another owner alone | shut | shut |
/// | shared, also by its owner | open if no other owner shares it | held |
/// | shared by other owners | shut | open, in its turn, if the limit leaves room |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// Its owner already holds the lock, in this mode or a stronger one, until this time.
    Held { hold: Hold, until: Option<Ms> },
    /// It may be granted. `keeps` is the share that its owner has already, if this is an upgrade.
    Open { keeps: Option<Share> },
    /// It has to wait.
    Shut,
    /// It is an upgrade that is never granted: an operator is ending its owner's share.
    Breaking,
}

impl Locks {
    /// Returns how this request fits the lock now; `in_turn` says that no waiter comes before it. May write
    /// the key of a reserved lock again, so that the request can share it.
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
            LockState::Free => open(in_turn && !self.reserve_if_expired(turn, name)),
            LockState::Reserved(reserved) => {
                let may_share = reserved.hold == Hold::Shared
                    && in_turn
                    && !quarantined
                    && request.mode.room_beside(reserved.count, most);
                // Once the reserved shares are in the key again, the request can join them.
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
                    // An upgrade comes before all other waiters, whether or not it is its turn.
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

    /// Is nothing granted now, because holds that this server does not know may not have expired yet?
    pub(super) fn is_quarantined(&self, now: Now) -> bool {
        (self.quarantined_until).is_some_and(|until| now.ms() < until)
    }

    /// Is an operator ending this owner's hold?
    pub(super) fn is_breaking(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold) -> bool {
        let entry = self.ledger(name.db).of(name.key, owner, hold);
        entry.is_some_and(|entry| entry.breaking)
    }
}
