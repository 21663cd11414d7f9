//! One command or tick, and what the core may use while it handles it.

use crate::lock::budget::Budget;
use crate::lock::keyspace::Keyspace;
use crate::lock::words::{Hold, Ms, Name, NameRef, Now};

/// One command or tick: what the core may use while it handles it.
pub struct Turn<'k> {
    pub keys: &'k mut dyn Keyspace,
    /// The time, read once, so that all decisions of one turn agree.
    pub now: Now,
    /// Is this a job at the end of what the server is doing? It may be in the middle of a walk through its keys then.
    pub is_job: bool,
    /// Locks that have still to be settled in this turn: in their queues a waiter may be granted something now.
    pub(super) settling: Vec<Name>,
    /// How much work may still be done in this turn besides what was asked for.
    pub(super) budget: Budget,
}

impl<'k> Turn<'k> {
    /// Begins a command or a tick, with the budget of one portion.
    pub fn new(keys: &'k mut dyn Keyspace, now: Now) -> Self {
        Self { keys, now, is_job: false, settling: Vec::new(), budget: Budget::of(Budget::PORTION) }
    }
}

impl Turn<'_> {
    /// May this key be written now, in a command or in a tick? Asks both questions of [`Keyspace`], because
    /// a tick also looks at locks without a queue.
    pub(super) fn may_write(&mut self, name: NameRef<'_>) -> bool {
        self.keys.is_writable() && self.keys.may_write(name)
    }

    /// Are fewer replicas connected than this?
    pub(super) fn lacks_replicas(&mut self, wanted: u8) -> bool {
        wanted > 0 && self.keys.replicas(self.now) < usize::from(wanted)
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
