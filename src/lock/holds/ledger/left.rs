//! Slots that have moved to another server while entries of their locks are still in the ledger. Those
//! entries are removed in portions, and are ignored until then, even if a slot comes back.

use std::fmt;

use crate::lock::holds::ledger::entry::Entry;
use crate::lock::holds::ledger::table::Sweep;
use crate::lock::holds::ledger::ties::Tie;
use crate::lock::slot::SLOTS;
use crate::lock::words::{Ms, Now, Slot, Slots};

/// The slots that have left, and how far the removal of their entries has come.
pub struct LeftSlots {
    /// When each slot left; 0 if it has not left.
    by_slot: Box<[Ms]>,
    /// How far the table of locks has been swept.
    pub(super) locks: Sweep,
    /// The last tie that was checked.
    pub(super) tie: Option<Tie>,
}

impl LeftSlots {
    pub fn new() -> Self {
        Self {
            by_slot: vec![0; SLOTS.into()].into_boxed_slice(),
            locks: Sweep::default(),
            tie: None,
        }
    }

    /// Adds slots that have left now. All sweeps begin again.
    pub fn add(&mut self, slots: &Slots, now: Now) {
        for (slot, left_at) in (0..).zip(&mut self.by_slot) {
            if slots.contains(slot) {
                *left_at = now.ms();
            }
        }
        (self.locks, self.tie) = Default::default();
    }

    /// Is this the entry of a hold whose slot has left? In the millisecond in which it left it can't have come back.
    pub fn includes(&self, entry: &Entry) -> bool {
        self.by_slot.get(usize::from(entry.slot)).is_some_and(|&left_at| entry.since <= left_at)
    }
}

/// Prints only the slots that have left, not all 16,384.
impl fmt::Debug for LeftSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (0..).zip(&self.by_slot).filter(|&(_, &left_at)| left_at > 0);
        f.debug_map().entries(all.map(|(slot, left_at): (Slot, _)| (slot, left_at))).finish()?;
        write!(f, "{:?}{:?}", self.locks, self.tie)
    }
}
