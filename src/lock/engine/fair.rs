//! Requests with FAIR: how many of each group hold a lock. With a queue they are counted as they come and go, and anew
//! where the sum is another than that of the key: others have changed it, or holds have expired.

use std::collections::BTreeMap;

use crate::lock::engine::locks::Locks;
use crate::lock::holds::look::Look;
use crate::lock::lock::LockState;
use crate::lock::turn::Turn;
use crate::lock::waiting::queue::Queue;
use crate::lock::words::{Mode, NameRef};

impl Locks {
    /// May one more of its owner's group share this lock, by the PER of the request?
    #[inline]
    pub(in crate::lock) fn has_room_for_group(
        &mut self,
        turn: &mut Turn<'_>,
        (name, lock): (NameRef<'_>, LockState),
        owner: &[u8],
        mode: Mode,
    ) -> bool {
        let per = match mode {
            Mode::Fair { per: Some(per), .. } if lock.holders() >= per.into() => per,
            _ => return true,
        };
        let group = self.waiting.waits.group_of(owner);
        let holders = match self.waiting.queues.get(name).and_then(Queue::fair) {
            Some(fair) => fair.holders_of(group),
            None => self.holds.groups(turn, name).get(&group).copied().unwrap_or_default(),
        };
        holders < per.into()
    }

    /// This owner has come to share the lock, or shares it no more.
    pub(in crate::lock) fn count_sharer(&mut self, name: NameRef<'_>, owner: &[u8], comes: bool) {
        if let Some(fair) = self.waiting.queues.get_mut(name).and_then(Queue::fair_mut) {
            fair.count_holder(self.waiting.waits.group_of(owner), comes);
        }
    }

    /// Checks what the order of the requests with FAIR knows of the holders against what a look has found.
    #[cold]
    pub(in crate::lock) fn check_groups(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        look: &Look,
    ) {
        let Some(fair) = self.waiting.queues.get_mut(name).and_then(Queue::fair_mut) else {
            return;
        };
        let held = match look.lock {
            LockState::Shared { count, .. } => count,
            _ => 0,
        };
        if fair.held != held || look.is_anew {
            let groups = match held {
                1.. if !self.limits.are_too_many(held) => self.holds.groups(turn, name),
                _ => BTreeMap::new(),
            };
            fair.count_anew(held, groups);
        }
    }
}
