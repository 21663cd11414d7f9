//! `LOCK.BREAK`: an operator ends the holds of a lock.

use crate::lock::engine::locks::Locks;
use crate::lock::keyspace::LockEvent;
use crate::lock::lock::LockState;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, NameRef, NotALock};

impl Locks {
    /// `LOCK.BREAK`: ends every hold of the lock, and returns how many there were. Only by `force` does it end
    /// a string without an expiry that this server did not grant: that may not be a lock at all.
    pub fn break_holds(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        force: bool,
    ) -> Result<usize, NotALock> {
        self.settle_queue(turn, name);
        let lock = self.settling(turn, name).look().lock;
        let Some(hold) = lock.hold() else {
            return if lock == LockState::NoLock { Err(NotALock) } else { Ok(0) };
        };
        if lock == (LockState::Exclusive { deadline: None }) && !force {
            let alone = self.holds.held(name).and_then(|held| held.alone());
            if alone.is_none_or(|alone| alone.entry.fence().is_none()) {
                return Ok(0);
            }
        }
        let mut records = self.records(turn, name);
        if hold == Hold::Shared {
            records.make_room();
        }
        records.turn.keys.announce(name, LockEvent::Broken);
        records.lose_broken(hold, lock.holders());
        // All of its owners' holds are forgotten already.
        records.turn.keys.remove(name);
        self.settle_queue(turn, name);
        Ok(lock.holders())
    }
}
