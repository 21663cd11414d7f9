//! Slots that have left for another server, until all that was remembered of their locks is forgotten:
//! that is done in portions, and counts for nothing meanwhile, even if a slot comes back.

use std::fmt;

use crate::lock::fence::Fence;
use crate::lock::ledger::entry::Entry;
use crate::lock::ledger::table::Sweep;
use crate::lock::ledger::ties::Tie;
use crate::lock::slot::{SLOTS, Slot, Slots};

/// Which slots have left, and how far it has come that their locks are forgotten.
pub struct LeftSlots {
    /// For each slot the number with which it left: all that were given before are smaller. 0 for one
    /// that has not left.
    by_slot: Box<[Fence]>,
    pub exclusive: Sweep,
    pub shared: Sweep,
    /// The last tie that has been looked at.
    pub tie: Option<Tie>,
}

impl LeftSlots {
    /// None yet.
    pub fn new() -> Self {
        Self {
            by_slot: vec![0; SLOTS.into()].into_boxed_slice(),
            exclusive: Sweep::default(),
            shared: Sweep::default(),
            tie: None,
        }
    }

    /// The same, and these slots have left too.
    pub fn and(mut self, slots: &Slots, number: Fence) -> Self {
        for (slot, left_with) in (0..).zip(&mut self.by_slot) {
            if slots.contains(slot) {
                *left_with = number;
            }
        }
        Self {
            by_slot: self.by_slot,
            ..Self::new()
        }
    }

    /// Is this about a hold that has left?
    pub fn includes(&self, entry: &Entry) -> bool {
        entry.fence.unwrap_or(entry.first) < self.number(entry.slot)
    }

    /// An entry that is new, which must not seem to have left.
    pub fn after(&self, mut entry: Entry) -> Entry {
        if entry.fence.is_none() {
            entry.first = entry.first.max(self.number(entry.slot));
        }
        entry
    }

    /// The slots that have left, and with which numbers.
    fn left(&self) -> impl Iterator<Item = (Slot, Fence)> {
        let all = (0..).zip(self.by_slot.iter().copied());
        all.filter(|&(_, number)| number > 0)
    }

    fn number(&self, slot: Option<Slot>) -> Fence {
        let number = slot.and_then(|slot| self.by_slot.get(usize::from(slot)));
        number.copied().unwrap_or(0)
    }
}

/// Of the slots only those that have left.
impl fmt::Debug for LeftSlots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.left()).finish()?;
        write!(f, "{:?}{:?}{:?}", self.exclusive, self.shared, self.tie)
    }
}
