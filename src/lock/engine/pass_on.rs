//! The end of a hold that is in the key, and the next waiter's grant.

use crate::lock::engine::locks::Locks;
use crate::lock::holds::ledger::Entry;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, NameRef};

impl Locks {
    /// Ends this owner's hold, which is in the key, and returns what was remembered of it. If no other owner
    /// shares the lock, the next waiter is granted it at once.
    #[inline]
    pub(in crate::lock) fn end_hold(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> Option<Entry> {
        let ended = self.remove_hold(turn, name, owner, hold);
        self.settle_queue(turn, name);
        ended
    }

    /// Takes this owner's hold out of the key, and returns what was remembered of it. The queue is not settled.
    pub(in crate::lock) fn remove_hold(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
    ) -> Option<Entry> {
        if hold == Hold::Shared && self.leave_others(turn, name, owner) {
            let ended = self.holds.ledger(name.db).remove(name.key, owner);
            return ended.map(|former| former.entry);
        }
        turn.keys.remove(name);
        self.holds.ledger(name.db).forget(name.key, owner)
    }

    /// Takes this owner's share out of the key if others share the lock, and returns whether they do.
    pub(in crate::lock) fn leave_others(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> bool {
        let lost = self.holds.make_room(turn, name);
        self.record_ended(turn, name, lost);
        let are_others = self.holds.state(turn, name).holders() > 1;
        if are_others {
            turn.keys.unshare(name, owner);
            self.count_sharer(name, owner, false);
        }
        are_others
    }

    /// Ends the last holds that are in the key, and returns what was remembered of this owner's. The next waiter is
    /// granted the lock at once.
    #[inline]
    pub(in crate::lock) fn pass_on(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Option<Entry> {
        turn.keys.remove(name);
        let ended = self.holds.ledger(name.db).forget(name.key, owner);
        self.settle_queue(turn, name);
        ended
    }
}
