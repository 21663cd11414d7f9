//! What others do to the keys.

use super::{Held, Key, Model};
use crate::lock::Ms;
use crate::lock::tests::simulated::{Lock, Owner};

impl Model {
    pub fn set(&mut self, lock: Lock, held: Held, deadline: Option<Ms>) {
        self.remove(lock);
        self.keys.push(Key {
            lock,
            held,
            deadline,
        });
    }

    pub fn remove(&mut self, lock: Lock) {
        self.keys.retain(|key| key.lock != lock);
    }

    pub fn set_deadline(&mut self, lock: Lock, deadline: Option<Ms>) {
        for key in &mut self.keys {
            if key.lock == lock {
                key.deadline = deadline;
            }
        }
    }

    /// `ZADD`, of an owner or of the marker and an owner. A set without the marker is no lock.
    pub fn zadd(&mut self, lock: Lock, owner: Owner, until: Option<Ms>, marked: bool) {
        let Some(key) = self.keys.iter_mut().find(|key| key.lock == lock) else {
            let held = if marked {
                Held::Shared(vec![(owner, until)])
            } else {
                Held::NoLock
            };
            return self.set(lock, held, None);
        };
        if let Held::Shared(shares) = &mut key.held {
            shares.retain(|share| share.0 != owner);
            shares.push((owner, until));
            shares.sort();
        }
    }

    /// `ZREM` of an owner, or of the marker.
    pub fn zrem(&mut self, lock: Lock, owner: Option<Owner>) {
        let Some(key) = self.keys.iter_mut().find(|key| key.lock == lock) else {
            return;
        };
        match (&mut key.held, owner) {
            (Held::Shared(shares), Some(owner)) => shares.retain(|share| share.0 != owner),
            (Held::Shared(shares), None) if shares.is_empty() => self.remove(lock),
            (Held::Shared(_), None) => key.held = Held::NoLock,
            _ => {}
        }
    }

    pub fn rename(&mut self, from: Lock, to: Lock) {
        if self.keys.iter().any(|key| key.lock == from) {
            self.remove(to);
        }
        for key in &mut self.keys {
            if key.lock == from {
                key.lock = to;
            }
        }
    }

    /// Somebody else has written shares, and nobody has looked yet.
    pub fn share_anew(&mut self, which: impl Fn(Lock) -> bool) {
        for Key { lock, held, .. } in self.keys.iter().filter(|key| which(key.lock)) {
            if let Held::Shared(shares) = held {
                let shares = shares.iter().map(|share| (*lock, share.0));
                self.fresh_shares.extend(shares);
            }
        }
    }
}
