//! What the keys say, and whether that is what is known.

use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::{Content, Server};
use crate::lock::{Hold as How, Ms, from_wall};

use super::super::action::{Ask, LOCKS, LockNo, OWNERS, OwnerNo, Wait as Waits};
use super::super::world::key_of;
use super::granting::end_in_key;
use super::{Book, Hold};

/// Who holds this lock, as its key says, and until when.
fn holders(server: &Server, lock: LockNo, now: Ms) -> Vec<(OwnerNo, How, Option<Ms>)> {
    let number = |token: &[u8]| OWNERS.iter().position(|owner| owner.as_bytes() == token);
    let Some(key) = key_of(server, lock) else {
        return Vec::new();
    };
    let (how, owners): (How, Vec<OwnerNo>) = match (&key.content, key.content.shares()) {
        (Content::Token(owner), _) => (How::Exclusive, number(owner).into_iter().collect()),
        (_, Some(shares)) => (How::Shared, shares.keys().filter_map(|one| number(one)).collect()),
        _ => return Vec::new(),
    };
    let ends = owners.into_iter().map(|owner| (owner, how, end_in_key(server, owner, lock)));
    ends.filter(|(_, _, end)| end.is_none_or(|end| end >= now)).collect()
}

/// Is there something in the key that is no lock?
fn is_no_lock(server: &Server, lock: LockNo, now: Ms) -> bool {
    let ahead = server.keys.ahead;
    key_of(server, lock).is_some_and(|key| {
        let is_over = (key.deadline).is_some_and(|deadline| from_wall(deadline, ahead) < now);
        key.content.is_no_lock() && !is_over
    })
}

impl Book {
    /// Another client has written this key: what it says counts from now on. If what was known is worth
    /// nothing any more, `anew`, no client knows any number, and no connection ends anything.
    pub fn read_key(&mut self, lock: LockNo, server: &Server, anew: bool) {
        self.no_lock[lock] = is_no_lock(server, lock, self.now);
        self.is_strange[lock] = true;
        let before: Vec<Hold> = self.holds.extract_if(.., |hold| hold.lock == lock).collect();
        for (owner, how, until) in holders(server, lock, self.now) {
            let known =
                (before.iter()).find(|hold| hold.owner == owner && hold.how == how && !anew);
            self.holds.push(match known {
                Some(known) => Hold {
                    until,
                    by_wall: true,
                    any_number: true,
                    is_clear: known.told && known.is_clear,
                    ..known.clone()
                },
                None => Hold {
                    lock,
                    owner,
                    how,
                    until,
                    by_wall: true,
                    fence: None,
                    first: None,
                    any_number: true,
                    told: true,
                    under_way: 0,
                    tied: None,
                    closed: false,
                    unclaimed: false,
                    is_loose: false,
                    is_ending: false,
                    // What its owner was granted meanwhile, and has not heard of, is given back.
                    may_be_ending: self.waits.iter().any(|wait| {
                        wait.granted.is_some()
                            && wait.ask.owner == owner
                            && wait.ask.locks.contains(&lock)
                    }),
                    any_end: false,
                    is_undelivered: false,
                    is_clear: anew
                        || before.is_empty()
                            && !self.waits.iter().any(|wait| wait.granted.is_some()),
                },
            });
        }
        self.holds.sort_by_key(|hold| (hold.lock, hold.owner));
    }

    /// What is in a key may be over by now.
    pub(super) fn see_no_locks(&mut self, server: &Server) {
        let now = self.now;
        (self.no_lock.iter_mut().enumerate())
            .for_each(|(lock, is_one)| *is_one = is_no_lock(server, lock, now));
    }

    /// Do the keys say who holds what, and until when?
    pub fn agrees(&mut self, server: &Server) -> Verdict {
        self.see_no_locks(server);
        for lock in 0..LOCKS.len() {
            // After a step of the clock they need not.
            if !self.is_stepped {
                self.agrees_with(lock, server)?;
            }
        }
        if let Some(lock) = self.broken.take() {
            ensure(!self.is_held(lock) || !self.waits.is_empty() || self.is_stepped, || {
                format!("{} was broken, and is held", LOCKS[lock].1)
            })?;
            for hold in &mut self.holds {
                (hold.is_ending, hold.may_be_ending) = (false, false);
            }
        }
        Ok(())
    }

    /// Notes which holds were granted to places whose owners are told by a message that no client receives.
    pub(super) fn see_who_is_unheard(&mut self, server: &Server) {
        for hold in &mut self.holds {
            let is_told = |ask: &Ask| matches!(ask.wait, Waits::Place { notify: true, .. });
            let is_its = |ask: &Ask| ask.owner == hold.owner && ask.locks.contains(&hold.lock);
            let mut waits = self.waits.iter().map(|wait| &wait.ask);
            hold.is_undelivered =
                !server.deaf.is_empty() && waits.any(|ask| is_its(ask) && is_told(ask));
        }
    }

    fn agrees_with(&mut self, lock: LockNo, server: &Server) -> Verdict {
        self.see_who_is_unheard(server);
        let name = LOCKS[lock].1;
        let found = holders(server, lock, self.now);
        let is = |hold: &Hold, one: &(OwnerNo, How, Option<Ms>)| {
            (hold.owner, hold.how) == (one.0, one.1)
        };
        let missing = |hold: &Hold| hold.lock == lock && !found.iter().any(|one| is(hold, one));
        for hold in self.holds.iter().filter(|hold| missing(hold)) {
            ensure(hold.may_go(), || {
                format!("{} has lost {name}, without a reason", OWNERS[hold.owner])
            })?;
        }
        self.holds.retain(|hold| !missing(hold));
        for one in &found {
            let hold = (self.holds.iter_mut()).find(|hold| hold.lock == lock && is(hold, one));
            let owner = OWNERS[one.0];
            let Some(hold) = hold else {
                return Err(format!("{owner} has {name}, and no client knows why"));
            };
            if hold.any_end {
                hold.until = one.2;
                hold.any_end = hold.unclaimed;
            }
            ensure(hold.until == one.2, || {
                format!("{owner} has {name} until {:?}, and not until {:?}", one.2, hold.until)
            })?;
        }
        Ok(())
    }
}
