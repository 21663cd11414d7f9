//! One command or tick, and what the core may use while it handles it.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::lock::budget::Budget;
use crate::lock::holds::ledger::Token;
use crate::lock::keyspace::Keyspace;
use crate::lock::words::{Hold, Ms, Name, NameRef, Now};

/// One command or tick: what the core may use while it handles it.
pub struct Turn<'k> {
    pub keys: &'k mut dyn Keyspace,
    /// The time, read once, so that all decisions of one turn agree.
    pub now: Now,
    /// Is this a job at the end of what the server is doing? It may be in the middle of a walk through its keys then.
    pub is_job: bool,
    /// Locks that have still to be settled in this turn.
    pub(super) settling: Settling,
    /// How much work may still be done in this turn besides what was asked for.
    pub(super) budget: Budget,
    /// The exclusive holder that was read last: [`LockState::Exclusive`](crate::lock::lock::LockState) borrows it.
    pub(super) owner: Token,
}

impl<'k> Turn<'k> {
    /// Begins a command or a tick, with the budget of one portion.
    pub fn new(keys: &'k mut dyn Keyspace, now: Now) -> Self {
        Self {
            keys,
            now,
            is_job: false,
            settling: Settling::default(),
            budget: Budget::of(Budget::PORTION),
            owner: Token::default(),
        }
    }
}

impl Turn<'_> {
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

/// What is still to be looked at before a command or a tick is over. It is usually empty, and then
/// nothing is allocated.
#[derive(Debug, Default)]
pub(in crate::lock) struct Settling(Option<Box<Lists>>);

#[derive(Debug, Default)]
struct Lists {
    /// Locks in whose queues a waiter may be granted something now.
    moved_up: Vec<Name>,
    /// Owners that wait for something and have just got a share of this lock, which has a queue.
    joined: VecDeque<(Name, Rc<[u8]>)>,
}

impl Settling {
    /// Adds locks in whose queues a waiter may be granted something now.
    pub fn add_moved_up(&mut self, names: impl IntoIterator<Item = Name>) {
        let mut names = names.into_iter().peekable();
        if names.peek().is_some() {
            self.lists().moved_up.extend(names);
        }
    }

    /// Takes the last lock that was added in whose queue a waiter may be granted something.
    pub fn next_moved_up(&mut self) -> Option<Name> {
        self.0.as_mut()?.moved_up.pop()
    }

    /// Adds an owner that waits for something and has just got a share of this lock.
    pub fn add_joined(&mut self, name: Name, owner: Rc<[u8]>) {
        self.lists().joined.push_back((name, owner));
    }

    /// Takes the first owner that was added because it has got a share of a lock.
    pub fn next_joined(&mut self) -> Option<(Name, Rc<[u8]>)> {
        self.0.as_mut()?.joined.pop_front()
    }

    /// Drops all owners that were added because they have got a share of a lock.
    pub fn forget_joined(&mut self) {
        if let Some(lists) = &mut self.0 {
            lists.joined.clear();
        }
    }

    #[cfg(test)]
    pub fn is_over(&self) -> bool {
        (self.0.as_ref()).is_none_or(|lists| lists.moved_up.is_empty() && lists.joined.is_empty())
    }

    fn lists(&mut self) -> &mut Lists {
        self.0.get_or_insert_default()
    }
}
