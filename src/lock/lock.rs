//! One lock: in which modes it is held, by whom, and whether a request may have it. The page to read first: no
//! key, no queue and no other lock is met here, and time is an argument.
//!
//! | a lock is | because | until |
//! |---|---|---|
//! | free | no owner holds it | it is granted |
//! | exclusive | it was granted to one owner alone | that owner releases it, or its hold ends |
//! | shared | it was granted to owners that may hold it beside each other | the last of them has released its share, or its share ends; or the only one left is granted it alone, an upgrade, which does not wait |
//! | another thing | another client has stored something else under its name | that is gone |
//!
//! A request for it, first in its queue or not:
//!
//! | the lock is | exclusive is asked | shared is asked |
//! |---|---|---|
//! | free | open, in its turn | open, in its turn |
//! | held by its owner alone | held | held |
//! | held by another alone | shut | shut |
//! | shared, by its owner too | open if no other owner shares it | held |
//! | shared by others | shut | open, in its turn, if its limit and `lock.max-sharers` leave room, and its PER for its group |
//!
//! [`HeldBy::admits`] decides it, when a lock is granted and when the search for deadlocks plays that through. Waiting
//! requests have their turn in this order: those of an owner that holds the lock, then all in the order of their
//! arrival, those with FAIR in one of their own ([`Queue`]). The lock is looked at again after whatever may change it, and at [`LockState::next_change`].
//!
//! [`Queue`]: crate::lock::waiting::queue::Queue

use crate::lock::words::{Ms, after};

/// How a request wants to hold the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// Beside other holders, up to `lock.max-sharers` in all.
    Shared,
    /// Beside fewer than this many other holders.
    Limit(u64),
    /// The same, in an order that is fair between groups of owners, and beside fewer than `per` of its own group.
    Fair { limit: u16, per: Option<u16> },
}

/// How an owner holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// Alone.
    Exclusive,
    /// Beside other holders, or as the only sharer for now.
    Shared,
}

impl Mode {
    /// Returns how the lock is held once this is granted.
    pub fn hold(self) -> Hold {
        match self {
            Self::Exclusive => Hold::Exclusive,
            Self::Shared | Self::Limit(_) | Self::Fair { .. } => Hold::Shared,
        }
    }

    /// It is granted beside fewer others than this, where no more than `max_sharers` may share a lock.
    pub fn room(self, max_sharers: u64) -> u64 {
        match self {
            Self::Exclusive => 1,
            Self::Shared => max_sharers,
            // It may have been lowered since the request was read.
            Self::Limit(most) => most.min(max_sharers),
            Self::Fair { limit, .. } => u64::from(limit).min(max_sharers),
        }
    }

    /// Is its order fair between groups?
    #[inline]
    pub fn is_fair(self) -> bool {
        matches!(self, Self::Fair { .. })
    }
}

impl Hold {
    /// Does it give its owner all that this mode asks for?
    pub fn covers(self, mode: Mode) -> bool {
        self == Self::Exclusive || mode != Mode::Exclusive
    }
}

/// Who holds a lock now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// No owner holds it.
    Free,
    /// One owner holds it alone, until `deadline`.
    Exclusive { deadline: Option<Ms> },
    /// `count` owners share it, and the first of their shares ends at `first_end`. `over` more shares are
    /// in the key, but have expired.
    Shared { count: usize, over: usize, first_end: Option<Ms> },
    /// Another client has stored something else.
    NoLock,
}

impl LockState {
    /// How its holders hold it, if it has any.
    pub fn hold(&self) -> Option<Hold> {
        match self {
            Self::Free | Self::NoLock => None,
            Self::Exclusive { .. } => Some(Hold::Exclusive),
            Self::Shared { .. } => Some(Hold::Shared),
        }
    }

    /// How many owners hold it.
    pub fn holders(&self) -> usize {
        match self {
            Self::Free | Self::NoLock => 0,
            Self::Exclusive { .. } => 1,
            Self::Shared { count, .. } => *count,
        }
    }

    /// When the first of its holds is over, if it ends by itself.
    pub fn next_change(&self) -> Option<Ms> {
        match *self {
            Self::Free | Self::NoLock => None,
            Self::Exclusive { deadline: end } | Self::Shared { first_end: end, .. } => after(end),
        }
    }

    /// Who holds it, seen from an owner that holds it in this way, or not at all.
    pub fn seen_by(&self, own: Option<Hold>) -> HeldBy {
        match *self {
            Self::Free | Self::NoLock => HeldBy::NO_OWNER,
            Self::Exclusive { .. } if own.is_some() => HeldBy::Owner,
            Self::Exclusive { .. } => HeldBy::Another,
            Self::Shared { count, .. } => {
                let owner = own.is_some();
                HeldBy::Sharers { others: count.saturating_sub(owner.into()), owner }
            }
        }
    }
}

/// Who holds a lock, seen from the owner of a request for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// That owner, alone.
    Owner,
    /// Another, alone.
    Another,
    /// This many others, which share it; the owner may share it too. Where neither does, the lock is free.
    Sharers { others: usize, owner: bool },
}

/// What comes of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its owner has what it asks for, or more.
    Held,
    /// It may be granted.
    Open,
    /// It has to wait.
    Shut,
}

impl HeldBy {
    /// No owner.
    pub const NO_OWNER: Self = Self::Sharers { others: 0, owner: false };

    /// What comes of a request in this mode, where no more than `max_sharers` may share a lock; `in_turn` if no
    /// other request comes before it.
    #[inline]
    pub fn admits(self, mode: Mode, in_turn: bool, max_sharers: u64) -> Verdict {
        let is_open = match self {
            Self::Owner => return Verdict::Held,
            Self::Another => false,
            Self::Sharers { owner: true, .. } if Hold::Shared.covers(mode) => return Verdict::Held,
            // An upgrade does not wait for its turn, nor for anything else.
            Self::Sharers { others, owner: true } => others == 0,
            Self::Sharers { others, owner: false } => {
                let room = mode.room(max_sharers);
                in_turn && u64::try_from(others).is_ok_and(|others| others < room)
            }
        };
        if is_open { Verdict::Open } else { Verdict::Shut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mode::{Exclusive, Limit, Shared};
    use Verdict::{Held, Open, Shut};

    const MAX: u64 = 4;

    const fn sharers(others: usize, owner: bool) -> HeldBy {
        HeldBy::Sharers { others, owner }
    }

    #[test]
    fn owners_see_whether_they_hold_it_alone_or_share_it_or_others_do() {
        let alone = LockState::Exclusive { deadline: Some(9) };
        let shared = LockState::Shared { count: 2, over: 1, first_end: Some(7) };
        for (lock, seen, hold, holders, change) in [
            (LockState::Free, HeldBy::NO_OWNER, None, 0, None),
            (LockState::NoLock, HeldBy::NO_OWNER, None, 0, None),
            (alone, HeldBy::Another, Some(Hold::Exclusive), 1, Some(10)),
            (shared, sharers(2, false), Some(Hold::Shared), 2, Some(8)),
        ] {
            assert_eq!((lock.seen_by(None), lock.hold()), (seen, hold));
            assert_eq!((lock.holders(), lock.next_change()), (holders, change));
        }
        assert_eq!(alone.seen_by(Some(Hold::Exclusive)), HeldBy::Owner);
        assert_eq!(shared.seen_by(Some(Hold::Shared)), sharers(1, true));
    }

    #[test]
    fn a_free_lock_is_open_in_turn() {
        for mode in [Exclusive, Shared, Limit(1)] {
            assert_eq!(HeldBy::NO_OWNER.admits(mode, true, MAX), Open);
            assert_eq!(HeldBy::NO_OWNER.admits(mode, false, MAX), Shut);
        }
    }

    #[test]
    fn an_exclusive_hold_is_all_that_its_owner_can_ask_for_and_shuts_out_others() {
        for mode in [Exclusive, Shared, Limit(1)] {
            for in_turn in [false, true] {
                assert_eq!(HeldBy::Owner.admits(mode, in_turn, MAX), Held);
                assert_eq!(HeldBy::Another.admits(mode, in_turn, MAX), Shut);
            }
        }
    }

    #[test]
    fn those_who_share_leave_room_for_others_in_turn_up_to_the_limit_of_the_request() {
        let two = sharers(2, false);
        assert_eq!(two.admits(Exclusive, true, MAX), Shut);
        assert_eq!(two.admits(Shared, true, MAX), Open);
        assert_eq!(two.admits(Shared, false, MAX), Shut);
        assert_eq!(two.admits(Limit(3), true, MAX), Open);
        assert_eq!(two.admits(Limit(3), false, MAX), Shut);
        assert_eq!(two.admits(Limit(2), true, MAX), Shut);
    }

    #[test]
    fn no_more_share_a_lock_than_may_whatever_the_limit_of_the_request() {
        for mode in [Shared, Limit(9)] {
            assert_eq!(sharers(3, false).admits(mode, true, MAX), Open);
            assert_eq!(sharers(4, false).admits(mode, true, MAX), Shut);
            assert_eq!(sharers(9, true).admits(mode, true, MAX), Held);
        }
    }

    #[test]
    fn one_who_shares_has_its_share_and_may_have_the_lock_alone_when_the_others_are_gone() {
        for in_turn in [false, true] {
            for others in [0, 2] {
                assert_eq!(sharers(others, true).admits(Shared, in_turn, MAX), Held);
                assert_eq!(sharers(others, true).admits(Limit(1), in_turn, MAX), Held);
            }
            assert_eq!(sharers(0, true).admits(Exclusive, in_turn, MAX), Open);
            assert_eq!(sharers(1, true).admits(Exclusive, in_turn, MAX), Shut);
        }
    }
}
