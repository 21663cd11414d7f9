//! May a request have a lock now? The one place where that is decided: granting asks here, and so does the
//! search for deadlocks.
//!
//! | the lock is | exclusive is asked | shared is asked |
//! |---|---|---|
//! | free | open, in its turn | open, in its turn |
//! | held by its owner alone | held | held |
//! | held by another alone | shut | shut |
//! | shared, by its owner too | open if no other owner shares it | held |
//! | shared by others | shut | open, in its turn, if its limit and `lock.max-sharers` leave room |

use crate::lock::words::{Hold, Mode};

/// Who holds a lock, seen from the owner of a request for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBy {
    /// That owner, alone.
    Owner,
    /// Another, alone.
    Another,
    /// So many others, which share it; the owner may share it too. Where neither does, the lock is free.
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
            // An upgrade comes before all other requests.
            Self::Sharers { others, owner: true } => others == 0,
            Self::Sharers { others, owner: false } => {
                in_turn && has_room(mode, others, max_sharers)
            }
        };
        if is_open { Verdict::Open } else { Verdict::Shut }
    }
}

/// Can this be granted while so many others share the lock?
fn has_room(mode: Mode, others: usize, max_sharers: u64) -> bool {
    let most = match mode {
        Mode::Exclusive => 1,
        Mode::Shared => max_sharers,
        Mode::Limit(most) => most.min(max_sharers),
    };
    u64::try_from(others).is_ok_and(|others| others < most)
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
