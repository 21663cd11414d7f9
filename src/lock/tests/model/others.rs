//! What others do to the keys.

use super::{Held, Key, Model};
use crate::lock::Ms;
use crate::lock::tests::simulated::Lock;

impl Model {
    /// What one of our own commands makes of it.
    pub fn set(&mut self, lock: Lock, held: Held, deadline: Option<Ms>) {
        self.remove(lock);
        self.keys.push(Key {
            lock,
            held,
            deadline,
            by_wall: Vec::new(),
            by_either: Vec::new(),
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

    /// As somebody else has left it.
    pub fn touched(&mut self, lock: Lock, key: Option<Key>) {
        self.remove(lock);
        self.keys.extend(key);
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
