//! `LOCK.BREAK`: an operator ends the holds of a lock.

use crate::lock::engine::locks::Locks;
use crate::lock::keyspace::LockEvent;
use crate::lock::lock::LockState;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, Ms, NameRef};

/// The options of `LOCK.BREAK`.
#[derive(Clone, Copy, Debug)]
pub struct Break {
    /// How much longer the holds may last; 0 ends them at once.
    pub grace: Ms,
    /// Also break a string without an expiry that this server did not grant: it may not be a lock at all.
    pub force: bool,
}

/// Why a lock is not broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotBroken {
    NotALock,
    /// More owners share the lock than may, and a grace would have to be written for each of them.
    TooManySharers,
}

impl Locks {
    /// `LOCK.BREAK`: ends every hold of the lock, and returns how many there were.
    pub fn break_holds(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        wanted: Break,
    ) -> Result<usize, NotBroken> {
        self.settle_queue(turn, name);
        self.meet(turn, name, None);
        self.holds.write_back(turn, name);
        if self.holds.look(turn, name).hold() == Some(Hold::Shared) {
            self.make_room(turn, name);
        }
        let (hold, held) = match self.holds.look(turn, name) {
            LockState::NoLock => return Err(NotBroken::NotALock),
            LockState::Free => return Ok(0),
            LockState::Exclusive { owner, deadline } => {
                let entry = self.holds.ledger(name.db).of(name.key, owner, Hold::Exclusive);
                let is_ours = entry.is_some_and(|entry| entry.fence.is_some());
                if deadline.is_none() && !is_ours && !wanted.force {
                    return Ok(0);
                }
                (Hold::Exclusive, 1)
            }
            LockState::Shared { count, over, .. } => {
                if wanted.grace > 0 && self.limits.are_too_many(count.saturating_add(over)) {
                    return Err(NotBroken::TooManySharers);
                }
                // They have expired, and are not broken.
                if over > 0 {
                    self.lose_over(turn, name);
                }
                (Hold::Shared, count)
            }
        };
        turn.keys.announce(name, LockEvent::Broken);
        if wanted.grace == 0 {
            self.lose_broken(turn, name, (hold, held));
            // All of its owners' holds are forgotten already.
            self.pass_on(turn, name, &[]);
        } else {
            // These holds are counted as broken when they end, unless their owners release them first.
            self.end_within(turn, name, hold, turn.now.plus(wanted.grace));
            self.settle_queue(turn, name);
        }
        Ok(held)
    }

    /// Lets each present hold end at `last` or at its own deadline, whichever comes first, and keeps its owner
    /// from prolonging it.
    fn end_within(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, hold: Hold, last: Ms) {
        for (owner, deadline) in self.holds.holders(turn, name, usize::MAX) {
            let ends_then = deadline.is_none_or(|deadline| deadline > last);
            if ends_then {
                turn.prolong(name, owner.bytes(), hold, last);
            }
            self.mark_breaking(turn, name, owner.bytes(), hold);
            if ends_then {
                self.holds.set_end(name, owner.bytes(), hold, last, turn.now);
            }
        }
    }
}
