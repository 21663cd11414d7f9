//! What is remembered of holds, and when it is void.

use super::{Held, Model, is_over};
use crate::lock::tests::simulated::{Lock, Owner};
use crate::lock::{Db, Hold, Ms};

impl Model {
    /// What is remembered of another hold than the key's is void.
    pub(super) fn look_at(&mut self, lock: Lock, now: Ms) {
        let holders = self.holders(lock, now);
        let held = (self.look(lock, now).map(|key| &key.held)).filter(|_| !holders.is_empty());
        let alone: Option<Owner> = match held {
            None | Some(Held::NoLock) => return self.grants.retain(|grant| grant.lock != lock),
            Some(Held::By(owner)) => Some(owner),
            Some(Held::Shared(_)) => None,
        };
        self.grants.retain(|grant| {
            grant.lock != lock
                || match grant.hold {
                    Hold::Exclusive => alone == Some(grant.owner),
                    Hold::Shared => alone.is_none(),
                }
        });
    }

    /// Shares that are over may be taken out at any time: these are left.
    pub fn drop_over_but(&mut self, lock: Lock, left: &[Owner], now: Ms) {
        let Some(key) = self.keys.iter_mut().find(|key| key.lock == lock) else {
            return;
        };
        let Held::Shared(shares) = &mut key.held else {
            return;
        };
        let gone =
            |&(owner, until): &(Owner, Option<Ms>)| is_over(until, now) && !left.contains(&owner);
        let dropped: Vec<Owner> = (shares.iter().filter(|share| gone(share)))
            .map(|share| share.0)
            .collect();
        shares.retain(|share| !gone(share));
        if shares.is_empty() && left.is_empty() && !dropped.is_empty() {
            self.remove(lock);
        }
        for owner in dropped {
            self.forget_share(lock, owner);
        }
    }

    /// What is known of shares that somebody else has taken out may be forgotten at any time: these
    /// are known still.
    pub fn forget_removed_but(&mut self, lock: Lock, known: impl Fn(Owner) -> bool) {
        let key = self.keys.iter().find(|key| key.lock == lock);
        let Some(Held::Shared(shares)) = key.map(|key| &key.held) else {
            return;
        };
        let shared: Vec<Owner> = shares.iter().map(|share| share.0).collect();
        self.grants.retain(|grant| {
            let is_removed =
                grant.lock == lock && grant.hold == Hold::Shared && !shared.contains(&grant.owner);
            !is_removed || known(grant.owner)
        });
    }

    /// An answer has told the owner that it holds the lock.
    pub fn tell(&mut self, lock: Lock, owner: Owner, hold: Hold) {
        self.get_to_know(lock, owner, hold).told = true;
    }

    /// A key is gone, and the server has said so: so is what was known of its hold.
    pub fn gone(&mut self, lock: Lock) {
        self.grants.retain(|grant| grant.lock != lock);
    }

    /// Something has happened to a lock's key.
    pub fn note(&mut self, lock: Lock) {
        let matters = self.queue.iter().any(|waiter| waiter.locks.contains(&lock))
            || self.grants.iter().any(|grant| grant.lock == lock);
        if matters {
            self.noted.push(lock);
        }
    }

    /// What was known of the holds is void; keys and queue stay.
    pub fn forget_grants(&mut self) {
        self.grants.clear();
        self.note_queue(|_| true);
    }

    /// Nothing is left but the keys.
    pub fn restart(&mut self) {
        self.grants.clear();
        self.queue.clear();
        self.served.clear();
        self.noted.clear();
        self.fresh_shares.clear();
        self.cuts.clear();
        self.last_ticket = 0;
    }

    pub fn flush(&mut self, db: Option<Db>) {
        let flushed = |lock: Lock| db.is_none_or(|db| lock.0 == db);
        self.keys.retain(|key| !flushed(key.lock));
        self.grants.retain(|grant| !flushed(grant.lock));
        self.note_queue(flushed);
    }

    /// The keys change places, and what is known of them; those who wait do not.
    pub fn swap(&mut self, one: Db, other: Db) {
        let swapped = |(db, key): Lock| match db {
            db if db == one => (other, key),
            db if db == other => (one, key),
            db => (db, key),
        };
        // What was noted of a place has moved, and something else has come there.
        let moved: Vec<Lock> = self.noted.iter().copied().map(swapped).collect();
        self.noted.extend(moved);
        for key in &mut self.keys {
            key.lock = swapped(key.lock);
        }
        for grant in &mut self.grants {
            grant.lock = swapped(grant.lock);
            if let Some((_, Some(share))) = &mut grant.keeps {
                share.lock = swapped(share.lock);
            }
        }
        for cut in &mut self.cuts {
            cut.lock = swapped(cut.lock);
        }
        // So has what those were granted who have yet to be told.
        for waiter in &mut self.served {
            for lock in &mut waiter.locks {
                *lock = swapped(*lock);
            }
        }
        self.note_queue(|_| true);
    }

    fn note_queue(&mut self, which: impl Fn(Lock) -> bool) {
        let waited_for = self.queue.iter().flat_map(|waiter| waiter.locks.clone());
        self.noted.extend(waited_for.filter(|&lock| which(lock)));
    }
}
