//! What is to be known of a lock before anything is decided about it.

use super::keyspace::{Keyspace, Share, Stored};
use super::request::{Hold, NotALock};

use super::budget::Budget;
use super::ledger::reserved::Reserved;
use super::ledger::token::Token;
use super::name::NameRef;
use super::settling::Settling;
use super::time::{Ms, Now, is_over};

/// An occasion to act: the keys, and what time it is.
pub struct Turn<'k> {
    /// The keys.
    pub keys: &'k mut dyn Keyspace,
    /// Read once.
    pub now: Now,
    /// What is being settled.
    pub(super) settling: Settling,
    /// How much is done besides what was asked for.
    pub(super) budget: Budget,
    /// Who holds the lock alone that was looked at last.
    owner: Token,
}

/// Shares that are over are counted one by one, and taken out of their lock at once, up to so many. The
/// others follow with the next commands, and in ticks while somebody waits.
pub(super) const MOST_OVER: usize = 16;

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockState<'a> {
    /// Nobody.
    Free,
    /// This owner alone, until then.
    Exclusive {
        owner: &'a [u8],
        deadline: Option<Ms>,
    },
    /// So many owners, of whom the first goes then; so many others are there, but over.
    Shared {
        count: usize,
        over: usize,
        first_end: Option<Ms>,
    },
    /// The key has gone too early, by a step of the wall clock: it is reserved for those who hold it.
    Reserved(Reserved),
    /// It is no lock.
    NoLock,
}

impl<'k> Turn<'k> {
    /// For a command, or a tick.
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
    /// Who holds the lock now. The key may outlive the hold: servers expire keys when they come to
    /// it, and not at all while writes are paused.
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

    /// The same, of a lock that this owner holds alone, if it is known apart from the key when that ends.
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

    /// This owner's share of a shared lock, if it is not over. None outlasts its key.
    pub(super) fn share_of(&mut self, name: NameRef<'_>, owner: &[u8]) -> Option<Share> {
        let share = self.keys.share_of(name, owner)?;
        let deadline = earlier(share.deadline, self.keys.deadline(name));
        (!is_over(deadline, self.now)).then_some(Share { deadline })
    }

    /// How this owner holds the lock, if it does, and until when.
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

    /// May this key be written, whoever asks for that? A tick comes also to locks that nobody waits for.
    pub(super) fn may_write(&mut self, name: NameRef<'_>) -> bool {
        self.keys.is_writable() && self.keys.may_write(name)
    }

    /// Moves the end of a hold.
    pub(super) fn prolong(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold, deadline: Ms) {
        match hold {
            Hold::Exclusive => {
                // It has expired in this very moment, and nobody else has come to hold it.
                if !self.keys.move_deadline(name, deadline) {
                    self.keys.hold(name, owner, deadline);
                }
            }
            Hold::Shared => self.keys.share(name, owner, deadline),
        }
    }
}

/// The earlier of two ends, either of which may never come.
pub(super) fn earlier(one: Option<Ms>, other: Option<Ms>) -> Option<Ms> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
