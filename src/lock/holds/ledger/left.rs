//! Slots that have moved to another server while entries of their locks are still in the ledger. Those
//! entries are removed in portions, and are ignored until then, even if a slot comes back.

use std::collections::BTreeMap;

use crate::lock::holds::ledger::held::Held;
use crate::lock::holds::ledger::table::Sweep;
use crate::lock::holds::ledger::ties::Tie;
use crate::lock::words::{Ms, Now, Slot, Slots};

/// The slots that have left, and how far the removal of their entries has come.
#[derive(Debug, Default)]
pub struct LeftSlots {
    /// When each left.
    left_at: BTreeMap<Slot, Ms>,
    /// How far the table of locks has been swept.
    pub(super) locks: Sweep,
    /// The last tie that was checked.
    pub(super) tie: Option<Tie>,
}

impl LeftSlots {
    /// Adds slots that have left now. All sweeps begin again.
    pub fn add(&mut self, slots: &Slots, now: Now) {
        self.left_at.extend(slots.iter().map(|&slot| (slot, now.ms())));
        (self.locks, self.tie) = Default::default();
    }

    /// Has the slot of this lock left since it was recorded? In the millisecond in which it left it can't have come back.
    pub fn include(&self, held: &Held) -> bool {
        // All entries of a key are of the same slot.
        held.entries().next().is_some_and(|entry| {
            self.left_at.get(&entry.slot).is_some_and(|&left_at| entry.since <= left_at)
        })
    }
}
