//! `LOCK.BREAK`: an operator ends the holds of a lock.

use crate::lock::engine::locks::Locks;
use crate::lock::engine::records::Records;
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
        let look = self.settling(turn, name).look();
        let broken = self.records(turn, name).break_holds(look.lock, force)?;
        if broken > 0 {
            self.settle_queue(turn, name);
        }
        Ok(broken)
    }
}

impl Records<'_, '_> {
    fn break_holds(&mut self, lock: LockState, force: bool) -> Result<usize, NotALock> {
        let Some(hold) = lock.hold() else {
            return if lock == LockState::NoLock { Err(NotALock) } else { Ok(0) };
        };
        if lock == (LockState::Exclusive { deadline: None }) && !force {
            let alone = self.holds.held(self.name).and_then(|held| held.alone());
            if alone.is_none_or(|alone| alone.entry.fence().is_none()) {
                return Ok(0);
            }
        }
        if hold == Hold::Shared {
            self.make_room();
        }
        self.turn.keys.announce(self.name, LockEvent::Broken);
        self.lose_broken(hold, lock.holders());
        // All of its owners' holds are forgotten already.
        self.turn.keys.remove(self.name);
        Ok(lock.holders())
    }
}
