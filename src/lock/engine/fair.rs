//! Requests with FAIR: how many of each group hold a lock. With a queue they are counted as they come and go, and anew
//! where the sum is another than that of the key: others have changed it, or holds have expired.

use std::collections::BTreeMap;

use crate::lock::engine::locks::Locks;
use crate::lock::engine::settle::Settling;
use crate::lock::holds::look::Look;
use crate::lock::lock::LockState;
use crate::lock::turn::Turn;
use crate::lock::waiting::Waiting;
use crate::lock::words::{Group, Mode, NameRef, Terms};

impl Locks {
    /// May one more of its owner's group share this lock, by the PER of a new request? The first of a queue has that room.
    #[inline(always)]
    pub(in crate::lock) fn has_room_for_group(
        &mut self,
        turn: &mut Turn<'_>,
        (name, lock): (NameRef<'_>, LockState),
        terms: &Terms<'_>,
    ) -> bool {
        let per = match terms.mode {
            Mode::Fair { per: Some(per), .. } if lock.holders() >= per.into() => per,
            _ => return true,
        };
        let group = self.waiting.waits.group_of(terms.owner);
        let holders = match self.waiting.queues.fair(name) {
            Some(fair) => fair.holders_of(group),
            None => self.groups(turn, name).get(&group).copied().unwrap_or_default(),
        };
        holders < per.into()
    }

    /// A command grants this owner a share of a lock, or ends its hold. A waiter that is granted the share which it has,
    /// because another client has written that, is none more.
    #[inline(always)]
    pub(super) fn count_sharer(&mut self, name: NameRef<'_>, owner: &[u8], comes: bool) {
        let Waiting { queues, waits, .. } = &mut self.waiting;
        if let Some(fair) = queues.fair_mut(name) {
            fair.count_holder(waits.group_of(owner), comes);
        }
    }

    /// How many of each group share this lock, by its key.
    fn groups(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> BTreeMap<Group, usize> {
        let mut groups = BTreeMap::<Group, usize>::new();
        self.holds.each_sharer(turn, name, &mut |owner, _| {
            let count = groups.entry(self.waiting.waits.group_of(owner)).or_default();
            *count = count.saturating_add(1);
            true
        });
        groups
    }
}

impl Settling<'_, '_> {
    /// Checks what the order of the requests with FAIR knows of the holders against what a look has found.
    pub(super) fn check_groups(&mut self, look: &Look) {
        let held = match look.lock {
            LockState::Shared { count, .. } => count,
            _ => 0,
        };
        let known = self.locks.waiting.queues.fair(self.name);
        if known.is_none_or(|fair| fair.held == held && !look.is_anew) {
            return;
        }
        let groups = match held {
            1.. if !self.locks.limits.are_too_many(held) => self.locks.groups(self.turn, self.name),
            _ => BTreeMap::new(),
        };
        if let Some(fair) = self.locks.waiting.queues.fair_mut(self.name) {
            fair.count_anew(held, groups);
        }
    }
}
