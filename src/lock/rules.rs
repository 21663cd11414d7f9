//! Decides whether a request may have a lock now.

use super::admits::{HeldBy, Verdict};
use super::keyspace::Share;
use super::ledger::reserved::Reserved;
use super::locks::Locks;
use super::name::NameRef;
use super::request::{Hold, Mode, NotALock, Request};
use super::state::{LockState, Turn};
use super::time::{Ms, Now};

/// How a request fits a lock: the [`Verdict`] on it, with what is to be known of its owner's hold.
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
        let (held, share, until) = match self.look(turn, name) {
            LockState::NoLock => return Err(NotALock),
            LockState::Free => {
                if self.reserve_if_expired(turn, name) {
                    return Ok(Fit::Shut);
                }
                (HeldBy::NO_OWNER, None, None)
            }
            LockState::Reserved(reserved) => {
                return self.fit_reserved(turn, name, request, in_turn, reserved);
            }
            LockState::Exclusive { owner, deadline } if owner == request.owner => {
                (HeldBy::Owner, None, deadline)
            }
            LockState::Exclusive { .. } => (HeldBy::Another, None, None),
            LockState::Shared { count, .. } => {
                let share = self.share_of(turn, name, request.owner);
                let held = HeldBy::Sharers {
                    others: count.saturating_sub(usize::from(share.is_some())),
                    owner: share.is_some(),
                };
                let until = share.and_then(|share| share.deadline);
                (held, share, until)
            }
        };
        let is_upgrade = share.is_some() && request.mode == Mode::Exclusive;
        if is_upgrade && self.is_breaking(name, request.owner, Hold::Shared) {
            return Ok(Fit::Breaking);
        }
        Ok(
            match held.admits(request.mode, in_turn, self.limits.max_sharers) {
                Verdict::Held => {
                    let hold = share.map_or(Hold::Exclusive, |_| Hold::Shared);
                    Fit::Held { hold, until }
                }
                Verdict::Open if !self.is_quarantined(turn.now) => Fit::Open { keeps: share },
                Verdict::Open | Verdict::Shut => Fit::Shut,
            },
        )
    }

    /// How it fits a lock that is reserved: beside those who shared it before the clock was stepped, once
    /// their shares are written again.
    fn fit_reserved(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        request: &Request<'_>,
        in_turn: bool,
        reserved: Reserved,
    ) -> Result<Fit, NotALock> {
        let held = match reserved.hold {
            Hold::Exclusive => HeldBy::Another,
            Hold::Shared => HeldBy::Sharers {
                others: reserved.count,
                owner: false,
            },
        };
        let max_sharers = self.limits.max_sharers;
        let may_share = held.admits(request.mode, in_turn, max_sharers) == Verdict::Open
            && !self.is_quarantined(turn.now);
        if may_share && self.share_again(turn, name) {
            return self.fit(turn, name, request, in_turn);
        }
        Ok(Fit::Shut)
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
