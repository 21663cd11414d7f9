//! Which owners hold a lock that others wait for.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::fmt;

use crate::lock::hashing::ByNumber;
use crate::lock::holds::ledger::owner::Owner;
use crate::lock::room::give_back_room;

/// How many locks that others wait for each owner holds, by the owner's
/// [short hash](crate::lock::holds::ledger::owner::Owner::short_hash). A lock that is waited for no more counts until it is
/// let go, and two owners may have one hash: that leads to a search for a deadlock that is none.
#[derive(Default)]
pub struct InTheWay(ByNumber<usize>);

impl InTheWay {
    pub fn count(&mut self, owner: u64) {
        let held = self.0.entry(owner).or_default();
        *held = held.saturating_add(1);
    }

    pub fn uncount(&mut self, owner: u64) {
        if let Entry::Occupied(mut held) = self.0.entry(owner) {
            *held.get_mut() = held.get().saturating_sub(1);
            if *held.get() == 0 {
                held.remove();
                give_back_room!(self.0);
            }
        }
    }

    /// May this owner be one of them?
    pub fn may_have(&self, owner: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains_key(&Owner::from(owner).short_hash())
    }
}

/// In order, so that two that are equal print the same.
impl fmt::Debug for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().collect::<BTreeMap<_, _>>()).finish()
    }
}
