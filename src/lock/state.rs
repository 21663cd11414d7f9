//! The state of a lock, as its key shows it, which everything else is decided by.

use super::keyspace::{Keyspace, Share, Stored};
use super::request::{Hold, NotALock};

use super::budget::Budget;
use super::ledger::reserved::Reserved;
use super::ledger::token::Token;
use super::name::NameRef;
use super::settling::Settling;
use super::time::{Ms, Now, is_over};

/// One command or tick: what the core may use while it handles it.
pub struct Turn<'k> {
    /// The database's keys.
    pub keys: &'k mut dyn Keyspace,
    /// The time, read once, so that all decisions of one turn agree.
    pub now: Now,
    /// Locks that have still to be settled in this turn.
    pub(super) settling: Settling,
    /// How much work may still be done in this turn besides what was asked for.
    pub(super) budget: Budget,
    /// The exclusive holder that was read last: [`LockState::Exclusive`] borrows it.
    owner: Token,
}

/// Up to this many expired shares are counted one by one, and are removed from their lock at once. The
/// rest are removed by later commands, and by ticks while clients wait.
pub(super) const MOST_OVER: usize = 16;

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockState<'a> {
    /// No owner holds it.
    Free,
    /// This owner holds it alone, until `deadline`.
    Exclusive {
        owner: &'a [u8],
        deadline: Option<Ms>,
    },
    /// `count` owners share it, and the first of their shares ends at `first_end`. `over` more shares are
    /// in the key, but have expired.
    Shared {
        count: usize,
        over: usize,
        first_end: Option<Ms>,
    },
    /// A step of the wall clock has expired the key too early: the lock is reserved for its holders.
    Reserved(Reserved),
    /// The key is not a lock.
    NoLock,
}

impl<'k> Turn<'k> {
    /// Begins a command or a tick, with the budget of one portion.
    pub fn new(keys: &'k mut dyn Keyspace, now: Now) -> Self {
        Self {
            keys,
            now,
            settling: Settling::default(),
            budget: Budget::of(Budget::PORTION),
            owner: Token::default(),
        }
    }
}

impl Turn<'_> {
    /// Returns who holds the lock now. The key may outlive the hold: servers expire keys lazily, and not
    /// at all while writes are paused.
    #[inline]
    pub(super) fn look(&mut self, name: NameRef<'_>) -> LockState<'_> {
        let (stored, deadline) = self.keys.look_until(name);
        let count = match stored {
            Stored::NoLock => return LockState::NoLock,
            Stored::Nothing => return LockState::Free,
            _ if is_over(deadline, self.now) => return LockState::Free,
            Stored::Exclusive { owner } => {
                self.owner = Token::from(owner);
                None
            }
            Stored::Shared { count } => Some(count),
        };
        match count {
            Some(count) => self.shared(name, count, deadline),
            None => LockState::Exclusive {
                owner: self.owner.bytes(),
                deadline,
            },
        }
    }

    /// Returns who holds a lock whose key names this owner as its exclusive holder. `end` is when the
    /// hold ends, if that is known from elsewhere: `None` leaves it to the key.
    pub(super) fn look_as_exclusive(
        &mut self,
        name: NameRef<'_>,
        owner: Token,
        end: Option<Option<Ms>>,
    ) -> LockState<'_> {
        match end {
            None => self.look(name),
            Some(deadline) if is_over(deadline, self.now) => LockState::Free,
            Some(deadline) => {
                self.owner = owner;
                LockState::Exclusive {
                    owner: self.owner.bytes(),
                    deadline,
                }
            }
        }
    }

    fn shared(
        &mut self,
        name: NameRef<'_>,
        all: usize,
        deadline: Option<Ms>,
    ) -> LockState<'static> {
        let now = self.now;
        let (mut over, mut first_end, mut is_more) = (0_usize, None, false);
        self.keys.each_share(name, 0, &mut |_, share| {
            let is_over = is_over(share.deadline, now);
            if is_over {
                over = over.saturating_add(1);
                is_more = over > MOST_OVER;
            } else {
                first_end = earlier(share.deadline, deadline);
            }
            is_over && !is_more
        });
        if is_more {
            over = self.keys.count_over(name, now);
            self.keys.each_share(name, now.ms(), &mut |_, share| {
                first_end = earlier(share.deadline, deadline);
                false
            });
        }
        match all.saturating_sub(over) {
            0 => LockState::Free,
            count => LockState::Shared {
                count,
                over,
                first_end,
            },
        }
    }

    /// Returns this owner's share of a shared lock, if it is not over: it ends with its key at the latest.
    pub(super) fn share_of(&mut self, name: NameRef<'_>, owner: &[u8]) -> Option<Share> {
        let share = self.keys.share_of(name, owner)?;
        let deadline = earlier(share.deadline, self.keys.deadline(name));
        (!is_over(deadline, self.now)).then_some(Share { deadline })
    }

    /// Returns how this owner holds the lock, if it does, and until when.
    pub(super) fn hold_of(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<Option<(Hold, Option<Ms>)>, NotALock> {
        let (stored, deadline) = self.keys.look_until(name);
        Ok(match stored {
            Stored::NoLock => return Err(NotALock),
            Stored::Nothing => None,
            Stored::Exclusive { owner: holder } => (holder == owner
                && !is_over(deadline, self.now))
            .then_some((Hold::Exclusive, deadline)),
            Stored::Shared { .. } => {
                (self.share_of(name, owner)).map(|share| (Hold::Shared, share.deadline))
            }
        })
    }

    /// May this key be written now, in a command or in a tick? Asks both questions of [`Keyspace`], because
    /// a tick also looks at locks without a queue.
    pub(super) fn may_write(&mut self, name: NameRef<'_>) -> bool {
        self.keys.is_writable() && self.keys.may_write(name)
    }

    /// Moves the end of a hold that is in the key.
    pub(super) fn prolong(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold, deadline: Ms) {
        match hold {
            Hold::Exclusive => {
                // The key has expired at this very moment; no other owner holds the lock yet.
                if !self.keys.move_deadline(name, deadline) {
                    self.keys.hold(name, owner, deadline);
                }
            }
            Hold::Shared => self.keys.share(name, owner, deadline),
        }
    }
}

/// Returns the earlier of two ends; `None` is an end that never comes.
pub(super) fn earlier(one: Option<Ms>, other: Option<Ms>) -> Option<Ms> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
