//! What a step of the wall clock changes: the ends of what others have written, and nothing else.

use super::{Held, Key, Model, is_over};
use crate::lock::tests::simulated::{Lock, Owner};
use crate::lock::{Ahead, Ms};

/// A key that goes by so much too early has gone in time.
pub const EARLY: Ms = 2;

impl Key {
    /// As somebody else has left it: all of it ends by the wall clock.
    pub fn by_wall(lock: Lock, held: Held, deadline: Option<Ms>) -> Self {
        let by_wall = match &held {
            Held::By(owner) => vec![*owner],
            Held::Shared(shares) => shares.iter().map(|share| share.0).collect(),
            Held::NoLock => Vec::new(),
        };
        Self {
            lock,
            held,
            deadline,
            by_wall,
            by_either: Vec::new(),
        }
    }

    /// Those who share it, whether over or not.
    pub(super) fn shares(&self) -> Vec<(Owner, Option<Ms>)> {
        match &self.held {
            Held::Shared(shares) => shares.clone(),
            Held::By(_) | Held::NoLock => Vec::new(),
        }
    }

    fn step(&mut self, by: Ahead) {
        let shift = |end: &mut Option<Ms>| {
            *end = end.map(|end| end.saturating_add_signed(-by));
        };
        let is_shifted = |owner: &Owner| self.by_wall.contains(owner);
        match &mut self.held {
            Held::NoLock => shift(&mut self.deadline),
            Held::By(owner) if is_shifted(owner) => shift(&mut self.deadline),
            Held::By(_) => {}
            Held::Shared(shares) => {
                let is_capped = last_of(shares) != self.deadline;
                for share in shares.iter_mut().filter(|share| is_shifted(&share.0)) {
                    shift(&mut share.1);
                }
                // Only somebody else has it expire before the last of its shares.
                if is_capped {
                    shift(&mut self.deadline);
                } else {
                    self.deadline = last_of(shares);
                }
            }
        }
    }
}

/// When the last of these ends, if all do.
pub(super) fn last_of(shares: &[(Owner, Option<Ms>)]) -> Option<Ms> {
    let ends: Option<Vec<Ms>> = shares.iter().map(|share| share.1).collect();
    ends.and_then(|ends| ends.into_iter().max())
}

impl Model {
    /// The wall clock is stepped.
    pub fn step(&mut self, by: Ahead) {
        self.keys.iter_mut().for_each(|key| key.step(by));
    }

    /// Does this share end by the wall clock?
    pub(super) fn is_by_wall(&self, lock: Lock, owner: Owner) -> bool {
        let mut keys = self.keys.iter().filter(|key| key.lock == lock);
        keys.any(|key| key.by_wall.contains(&owner))
    }

    /// Of those that may end by either clock the core decides by which they do.
    pub fn follow_clocks(&mut self, lock: Lock, ends_by_wall: impl Fn(Owner) -> bool) {
        for key in self.keys.iter_mut().filter(|key| key.lock == lock) {
            let mut by_wall = std::mem::take(&mut key.by_either);
            by_wall.retain(|owner| ends_by_wall(owner));
            key.by_wall.extend(by_wall);
        }
    }

    /// The server has removed the key, because its time was over by the wall clock. Is the lock reserved
    /// for those who hold it?
    pub fn expired(&mut self, lock: Lock, now: Ms) -> bool {
        let Some(at) = self.keys.iter().position(|key| key.lock == lock) else {
            return false;
        };
        let key = &mut self.keys[at];
        let is_ours = |owner: &Owner| !key.by_wall.contains(owner);
        let lasts = |end: Option<Ms>| end.is_none_or(|end| end >= now + EARLY);
        let is_reserved = match &mut key.held {
            Held::NoLock => false,
            Held::By(owner) => is_ours(owner) && lasts(key.deadline),
            Held::Shared(shares) => {
                shares.retain(|(owner, end)| is_ours(owner) && !is_over(*end, now));
                key.deadline = last_of(shares);
                !shares.is_empty() && lasts(key.deadline)
            }
        };
        if !is_reserved {
            self.remove(lock);
        }
        is_reserved
    }

    /// A key that is not there any more, and that was over.
    pub fn drop_if_over(&mut self, lock: Lock, now: Ms) {
        if self.holders(lock, now).is_empty() && !self.is_no_lock(lock, now) {
            self.remove(lock);
        }
    }
}
