//! By which wall clock the expiry of a key was last written, if that was since the clock was stepped.

use crate::lock::holds::ledger::Ledger;
use crate::lock::holds::ledger::discarded::Discarded;
use crate::lock::holds::wall::WallClock;
use crate::lock::words::{Ahead, Hold, NameRef};

/// The expiry of this key was written, or seen to be right, after so many steps of the wall clock. The note stays when
/// the lock is released: each later hold renews it as it is written. Without one the earliest expiry counts that may
/// have been written, so a note may be dropped at any time.
#[derive(Debug)]
pub struct Synced {
    /// Steps are counted because the clock may be stepped back to where it was.
    steps: u64,
    ahead: Ahead,
}

/// So many notes are no burden.
const FEW_NOTES: usize = 256;

impl Ledger {
    /// Notes that the expiry of this key, and all ends in it, are right by this clock; or that it isn't known by which.
    pub fn note_synced(&mut self, name: NameRef<'_>, wall: Option<WallClock>) {
        let key = name.print;
        match wall {
            Some(wall) => {
                self.synced.insert(key, Synced { steps: wall.steps(), ahead: wall.ahead() });
            }
            None => _ = self.synced.remove(key),
        }
    }

    /// Do the ends in the key of this shared lock agree with what is remembered?
    pub fn ends_agree(&self, name: NameRef<'_>, wall: &WallClock) -> bool {
        let key = name.print;
        self.locks.get(key).is_none_or(|held| held.hold() == Hold::Exclusive)
            || self.synced.get(key).is_some_and(|noted| noted.steps == wall.steps())
    }

    /// How far the wall clock was ahead when the expiry of this key was last written, if that is known.
    pub fn written_ahead(&self, name: NameRef<'_>) -> Option<Ahead> {
        Some(self.synced.get(name.print)?.ahead)
    }

    /// Are there many more notes than locks that are held?
    pub fn has_idle_notes(&self) -> bool {
        self.synced.len() > self.locks.len().saturating_mul(2).saturating_add(FEW_NOTES)
    }

    /// Drops all notes.
    pub fn forget_steps(&mut self, discarded: &mut Discarded) {
        if !self.synced.is_empty() {
            let synced = std::mem::take(&mut self.synced);
            discarded.add(synced.len(), synced.into_buckets());
        }
    }
}

#[cfg(test)]
impl Ledger {
    pub fn count_notes(&self) -> usize {
        self.synced.len()
    }
}
