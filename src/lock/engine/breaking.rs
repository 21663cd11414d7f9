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
        self.meet(turn, name);
        if self.holds.look(turn, name).hold() == Some(Hold::Shared) {
            self.make_room(turn, name);
        }
        let (hold, held) = match self.holds.look(turn, name) {
            LockState::NoLock => return Err(NotALock),
            LockState::Free => return Ok(0),
            LockState::Exclusive { owner, deadline } => {
                let entry = self.holds.ledger(name.db).of(name.key, owner, Hold::Exclusive);
                let is_ours = entry.is_some_and(|entry| entry.fence().is_some());
                if deadline.is_none() && !is_ours && !force {
                    return Ok(0);
                }
                (Hold::Exclusive, 1)
            }
            LockState::Shared { count, .. } => (Hold::Shared, count),
        };
        turn.keys.announce(name, LockEvent::Broken);
        self.lose_broken(turn, name, (hold, held));
        // All of its owners' holds are forgotten already.
        self.pass_on(turn, name, &[]);
        Ok(held)
    }
}
