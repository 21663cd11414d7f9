//! Which owners hold a lock that others wait for.

use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::fmt;

use crate::lock::hashing::ByNumber;
use crate::lock::room::give_back_room;

/// How many locks that others wait for each owner holds, by a short hash of the owner. A lock that is waited for no more
/// counts until it is let go, and two owners may have one hash: that leads to a search for a deadlock that is none.
#[derive(Default)]
pub struct InTheWay(ByNumber<usize>);

impl InTheWay {
    pub fn count(&mut self, owner: &[u8]) {
        let held = self.0.entry(hash(owner)).or_default();
        *held = held.saturating_add(1);
    }

    pub fn uncount(&mut self, owner: &[u8]) {
        if let Entry::Occupied(mut held) = self.0.entry(hash(owner)) {
            *held.get_mut() = held.get().saturating_sub(1);
            if *held.get() == 0 {
                held.remove();
                give_back_room(&mut self.0);
            }
        }
    }

    /// May this owner be one of them?
    pub fn may_have(&self, owner: &[u8]) -> bool {
        !self.0.is_empty() && self.0.contains_key(&hash(owner))
    }
}

/// It needs no secret: owners of one hash are one entry.
fn hash(owner: &[u8]) -> u64 {
    let (words, rest) = owner.as_chunks();
    let mix =
        |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let hash = words.iter().fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    rest.iter().fold(hash, |hash, &byte| mix(hash, byte.into()))
}

/// In order, so that two that are equal print the same.
impl fmt::Debug for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().collect::<BTreeMap<_, _>>()).finish()
    }
}
