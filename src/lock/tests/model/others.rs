//! What others do: to keys, to the clock, to the server.

use super::comparing::key_by_wall;
use super::{Hold, Model, is_over};
use crate::lock::tests::interleavings::steps::LOCKS;
use crate::lock::tests::simulated::{Lock, Owner, Server};
use crate::lock::{Ahead, Db, Hold as How, Ms};

/// A key that goes by so much too early has gone in time.
const EARLY: Ms = 2;

impl Hold {
    /// As another client has left it: it ends by the wall clock, and its owner knows of it.
    pub(super) fn written_by_others(lock: Lock, owner: Owner, how: How, until: Option<Ms>) -> Self {
        Self { by_wall: true, told: true, is_loose: true, ..Self::new(lock, owner, how, until) }
    }
}

impl Model {
    /// Another client has touched this key: what it says now counts.
    pub fn touched(&mut self, lock: Lock, server: &Server) {
        let mut before: Vec<Hold> = (self.holds).extract_if(.., |hold| hold.lock == lock).collect();
        before.retain(|hold| !is_over(hold.until, server.now().ms()));
        let (how, owners) = key_by_wall(server, lock).unwrap_or((How::Exclusive, Vec::new()));
        for (owner, until) in owners {
            let mut before = before.iter();
            let known = before.find(|hold| hold.owner == owner && hold.how == how);
            self.holds.push(match known {
                Some(known) => Hold {
                    until,
                    by_wall: true,
                    or_by_wall: false,
                    or_until: Vec::new(),
                    is_new: true,
                    is_known: !known.is_loose || known.is_known,
                    is_loose: true,
                    ..known.clone()
                },
                None => Hold::written_by_others(lock, owner, how, until),
            });
        }
    }

    pub fn flushed(&mut self, db: Option<Db>) {
        let stays = |lock: Lock| db.is_some_and(|db| lock.0 != db);
        self.holds.retain(|hold| stays(hold.lock));
    }

    /// The wall clock is stepped: what others have written ends at another time now.
    pub fn stepped(&mut self, by: Ahead) {
        (self.is_stepped, self.is_stepping) = (true, true);
        for hold in &mut self.holds {
            let shifted = |end: Option<Ms>| end.map(|end| end.saturating_add_signed(-by));
            let others: Vec<_> = hold.or_until.iter().map(|&end| shifted(end)).collect();
            if hold.by_wall {
                hold.until = shifted(hold.until);
                hold.or_until = others;
            } else if hold.or_by_wall || hold.is_loose {
                hold.or_until.extend(others.into_iter().chain([shifted(hold.until)]));
            }
        }
    }

    /// Of the holds that there are, nothing is known but what their keys say.
    pub fn knows_keys_alone(&mut self, server: &Server) {
        self.holds.clear();
        for lock in LOCKS {
            self.touched(lock, server);
        }
        self.holds.iter_mut().for_each(|hold| hold.is_loose = false);
    }

    /// The server starts anew.
    pub fn restarted(&mut self, server: &Server) {
        self.queue.clear();
        self.asleep.clear();
        self.served.clear();
        self.owed.clear();
        self.trouble = None;
        (self.sends_away, self.is_stepped) = (false, false);
        self.counted = Default::default();
        self.knows_keys_alone(server);
    }

    /// A slot has left with what is held there.
    pub fn left(&mut self, key: &str) {
        self.holds.retain(|hold| hold.lock.1 != key);
        self.places_end(Some(key));
    }

    /// These keys have expired. By a step of the clock that may have been too early, but by so little
    /// that it was in time: unless the key has gone too early for another that shares the lock, as it is written again
    /// with all that last.
    pub(super) fn expired(&mut self, locks: &[Lock], server: &Server) {
        let soon = self.now + EARLY;
        for lock in LOCKS {
            let is_gone = locks.contains(&lock) || server.keys.get(lock).is_none();
            let outlasts_it = |hold: &Hold| {
                let is_sure = !(hold.by_wall || hold.or_by_wall || hold.is_loose);
                is_sure && hold.until.is_some_and(|until| until >= soon)
            };
            let is_written_again = self.holders(lock).any(outlasts_it);
            let has_expired = self.is_stepped && is_gone;
            for hold in self.holds.iter_mut().filter(|hold| hold.lock == lock) {
                let ends_soon = hold.until.is_none_or(|until| until < soon);
                let in_time = hold.by_wall || ends_soon && !is_written_again;
                let either = hold.or_until.iter().any(|&until| is_over(until, self.now));
                hold.is_early = has_expired && in_time || either;
            }
        }
    }

    /// A connection has closed.
    pub(super) fn closed(&mut self, client: u64) {
        for hold in &mut self.holds {
            hold.closed |= hold.tied == Some(client);
        }
        self.places_close(client);
    }
}
