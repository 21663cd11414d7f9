//! Returns to owners whether they hold a lock, and remembers that they know it.

use crate::lock::engine::locks::Locks;
use crate::lock::engine::records::Records;
use crate::lock::engine::report::{Left, left_until};
use crate::lock::log::entry::LateUse;
use crate::lock::stats::{Counts, count};
use crate::lock::turn::Turn;
use crate::lock::words::{NameRef, NotALock};

impl Records<'_, '_> {
    /// `LOCK.CHECK`: returns what is left of this owner's hold, if it has one.
    pub fn check(&mut self, owner: &[u8]) -> Result<Option<Left>, NotALock> {
        let Some((hold, deadline)) = self.holds.hold_of(self.turn, self.name, owner)? else {
            self.record_comeback(owner, LateUse::Check);
            return Ok(None);
        };
        let is_told = self.mark_told(owner, (hold, deadline));
        let known = self.pending.known_end(self.name, owner);
        Ok(is_told.then(|| left_until(known.or(deadline), self.turn.now)))
    }

    /// Counts a command that is to be run under the lock, and returns whether this owner holds it.
    fn guard(&mut self, owner: &[u8]) -> Result<bool, NotALock> {
        let held = self.holds.hold_of(self.turn, self.name, owner)?;
        let is_told = held.is_some_and(|held| self.mark_told(owner, held));
        if held.is_none() {
            self.record_comeback(owner, LateUse::Guard);
        }
        let Counts { guarded, guard_refused, .. } = &mut *self.counts;
        count(if is_told { guarded } else { guard_refused }, 1);
        Ok(is_told)
    }
}

impl Locks {
    /// `LOCK.GUARD`: returns whether this owner holds the lock, so that a command may be run.
    pub fn guard(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<bool, NotALock> {
        self.meet(turn, name);
        self.settle_queue(turn, name);
        self.records(turn, name).guard(owner)
    }
}
