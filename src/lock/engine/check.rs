//! Tells owners whether they hold a lock, and remembers that they have been told.

use crate::lock::engine::locks::Locks;
use crate::lock::engine::report::{Left, left_until};
use crate::lock::log::line::Comeback;
use crate::lock::stats::count;
use crate::lock::turn::Turn;
use crate::lock::words::{NameRef, NotALock};

impl Locks {
    /// `LOCK.CHECK`: returns what is left of this owner's hold, if it has one.
    pub fn check(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<Option<Left>, NotALock> {
        let Some((hold, deadline)) = self.holds.hold_of(turn, name, owner)? else {
            self.record_comeback(turn, name, owner, Comeback::Check);
            return Ok(None);
        };
        if self.is_pending(name, owner, hold) {
            return Ok(None);
        }
        self.mark_told(turn, name, owner, (hold, deadline));
        Ok(Some(left_until(deadline, turn.now)))
    }

    /// `LOCK.GUARD`: returns whether this owner holds the lock, so that a command may be run.
    pub fn guard(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<bool, NotALock> {
        self.meet(turn, name);
        self.settle_queue(turn, name);
        let held = self.holds.hold_of(turn, name, owner)?;
        if held.is_some_and(|(hold, _)| self.is_pending(name, owner, hold)) {
            count(&mut self.counts.guard_refused, 1);
            return Ok(false);
        }
        match held {
            Some(held) => {
                self.mark_told(turn, name, owner, held);
                count(&mut self.counts.guarded, 1);
            }
            None => {
                self.record_comeback(turn, name, owner, Comeback::Guard);
                count(&mut self.counts.guard_refused, 1);
            }
        }
        Ok(held.is_some())
    }
}
