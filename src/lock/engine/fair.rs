//! Requests with FAIR: how many of each group hold a lock. With a queue they are counted as they come and go, and anew
//! where the sum is another than that of the key: others have changed it, or holds have expired.

use std::collections::BTreeMap;

use crate::lock::engine::locks::Locks;
use crate::lock::engine::settle::Settling;
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

    /// This owner holds the lock no more.
    pub(super) fn count_out(&mut self, name: NameRef<'_>, owner: &[u8]) {
        if let Some(fair) = self.waiting.queues.get_mut(name).and_then(Queue::fair_mut) {
            fair.count_holder(self.waiting.waits.group_of(owner), false);
        }
    }
}

impl Settling<'_, '_> {
    /// Checks what the order of the requests with FAIR knows of the holders against what a look has found.
    #[cold]
    pub(super) fn check_groups(&mut self, look: &Look) {
        let Locks { waiting, holds, limits, .. } = &mut *self.locks;
        let Some(fair) = waiting.queues.get_mut(self.name).and_then(Queue::fair_mut) else {
            return;
        };
        let held = match look.lock {
            LockState::Shared { count, .. } => count,
            _ => 0,
        };
        if fair.held != held || look.is_anew {
            let groups = match held {
                1.. if !limits.are_too_many(held) => holds.groups(self.turn, self.name),
                _ => BTreeMap::new(),
            };
            fair.count_anew(held, groups);
        }
    }
}
