//! Slots that have moved to another server while entries of their locks are still in the ledger. Those
//! entries are removed in portions, and are ignored until then, even if a slot comes back.

use std::fmt;

use crate::lock::holds::ledger::entry::{Entry, Number};
use crate::lock::holds::ledger::table::Sweep;
use crate::lock::holds::ledger::ties::Tie;
use crate::lock::slot::SLOTS;
use crate::lock::words::{Fence, Slot, Slots};

/// The slots that have left, and how far the removal of their entries has come.
pub struct LeftSlots {
    /// For each slot a fencing token above all that were granted before it left; 0 if it has not left.
    by_slot: Box<[Fence]>,
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

    /// Adds slots that have left, with a number above all that they have granted. All sweeps begin again.
    pub fn add(&mut self, slots: &Slots, number: Fence) {
        for (slot, left_with) in (0..).zip(&mut self.by_slot) {
            if slots.contains(&slot) {
                *left_with = number;
            }
        }
        (self.locks, self.tie) = Default::default();
    }

    /// Is this the entry of a hold whose slot has left?
    pub fn includes(&self, entry: &Entry) -> bool {
        entry.number.get() < self.number(entry.slot)
    }

    /// Marks a new entry as newer than the slot's departure, if it has no fencing token to show that.
    pub fn as_newer(&self, mut entry: Entry) -> Entry {
        if let Number::NewerThan(number) = entry.number {
            entry.number = Number::newer_than(number.get().max(self.number(entry.slot)));
        }
        entry
    }

    /// The slots that have left, each with its number in `by_slot`.
    fn left(&self) -> impl Iterator<Item = (Slot, Fence)> {
        let all = (0..).zip(self.by_slot.iter().copied());
        all.filter(|&(_, number)| number > 0)
    }

    fn number(&self, slot: Option<Slot>) -> Fence {
        let number = slot.and_then(|slot| self.by_slot.get(usize::from(slot)));
        number.copied().unwrap_or(0)
    }
}

/// Prints only the slots that have left, not all 16,384.
impl fmt::Debug for LeftSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.left()).finish()?;
        write!(f, "{:?}{:?}", self.locks, self.tie)
    }
}
