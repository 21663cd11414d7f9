//! Locks whose keys have gone too early, because the wall clock was set forward: nobody else is granted
//! them before the hold ends by our own clock.

use crate::lock::fence::Fence;
use crate::lock::ledger::entry::Entry;
use crate::lock::ledger::token::Token;
use crate::lock::ledger::{Former, Ledger};
use crate::lock::request::Hold;
use crate::lock::time::{Ms, Now, is_over};
use crate::lock::wall::{EARLY, Written};

/// Who has the lock, although there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// How it is held.
    pub hold: Hold,
    /// How many hold it.
    pub count: usize,
    /// When the first of them ends.
    pub first_end: Ms,
}

impl Ledger {
    /// Is any lock reserved?
    #[inline]
    pub fn reserves(&self) -> bool {
        !self.reserved.is_empty()
    }

    /// This key has expired. Is the lock reserved, because a hold lasts of which the wall clock has passed
    /// the expiry that was written for it?
    pub fn reserve(&mut self, key: &[u8], now: Now, has_passed: &dyn Fn(Written) -> bool) -> bool {
        if self.holds == 0 {
            return false;
        }
        let print = self.print(key);
        self.drop_left(key, print);
        let lasts = |end: Ms| end >= now.plus(EARLY);
        if let Some(hold) = self.exclusive.get_mut(print) {
            let entry = hold.entry.entry();
            let is_meant = |end| !entry.by_wall && lasts(end) && has_passed(entry.written(end));
            let Some(end) = entry.end.filter(|&end| is_meant(end)) else {
                return false;
            };
            hold.entry.set(Entry {
                reserved: true,
                ..entry
            });
            self.reserved.insert((end, Box::from(key)));
            return true;
        }
        let Some(shares) = self.shared.get_mut(print) else {
            return false;
        };
        let (_, ends) = shares.lasting(now);
        let until = match ends {
            Some((_, last)) if lasts(last) && shares.have_all_passed(now, has_passed) => last,
            _ => return false,
        };
        if let Some(before) = shares.reserved_until.replace(until) {
            self.reserved.remove(&(before, Box::from(key)));
        }
        self.reserved.insert((until, Box::from(key)));
        true
    }

    /// Who has this lock, if it is reserved; and who of those who shared it do so no more, and are
    /// forgotten.
    pub fn reserved(&mut self, key: &[u8], now: Now) -> (Option<Reserved>, Vec<Former>) {
        if !self.reserves() {
            return (None, Vec::new());
        }
        let print = self.print(key);
        self.drop_left(key, print);
        if let Some(hold) = self.exclusive.get(print) {
            let entry = hold.entry.entry();
            let first_end = entry.end.filter(|_| entry.reserved);
            let reserved = first_end.filter(|&end| !is_over(Some(end), now));
            let reserved = reserved.map(|first_end| Reserved {
                hold: Hold::Exclusive,
                count: 1,
                first_end,
            });
            return (reserved, Vec::new());
        }
        let shares = self.shared.get(print);
        if shares.is_none_or(|shares| shares.reserved_until.is_none()) {
            return (None, Vec::new());
        }
        let gone = self.forget_over(key, now);
        let Some(shares) = self.shared.get(print) else {
            return (None, gone);
        };
        let (count, ends) = shares.lasting(now);
        let reserved = ends.map(|(first_end, _)| Reserved {
            hold: Hold::Shared,
            count,
            first_end,
        });
        (reserved, gone)
    }

    /// Forgets those whose shares are over, or end by the wall clock, by which they are.
    fn forget_over(&mut self, key: &[u8], now: Now) -> Vec<Former> {
        let (print, secret) = (self.print(key), self.secret);
        let mut owners = self.sharers(key);
        let shares = self.shared.get(print);
        owners.retain(|owner| {
            let entry = shares.and_then(|shares| shares.get(secret, owner.bytes()));
            entry.is_some_and(|entry| entry.by_wall || is_over(entry.end, now))
        });
        (owners.iter())
            .filter_map(|owner| self.take_share(key, owner.bytes()))
            .collect()
    }

    /// How this owner holds the lock, if that is reserved for it.
    pub fn reserved_for(&self, key: &[u8], owner: &[u8], now: Now) -> Option<(Hold, Entry)> {
        if !self.reserves() {
            return None;
        }
        [Hold::Exclusive, Hold::Shared]
            .into_iter()
            .find_map(|hold| Some((hold, self.of(key, owner, hold)?)))
            .filter(|(_, entry)| entry.reserved && !entry.by_wall && !is_over(entry.end, now))
    }

    /// The owner for which this lock is reserved, if it is one owner's alone.
    pub fn reserved_owner(&self, key: &[u8]) -> Option<Token> {
        let hold = self.exclusive.get(self.print(key))?;
        hold.entry.entry().reserved.then(|| hold.owner.token())
    }

    /// Those who share a lock that is reserved, and until when.
    pub fn each_reserved(
        &self,
        key: &[u8],
        now: Now,
    ) -> impl Iterator<Item = (Token, Ms)> + use<'_> {
        let shares = self.shared.get(self.print(key));
        let shares = shares.filter(|shares| shares.reserved_until.is_some());
        shares
            .into_iter()
            .flat_map(move |shares| shares.each_lasting(now))
    }

    /// The key is there again, or is somebody else's: nothing is reserved any more.
    pub fn end_reservation(&mut self, key: &[u8]) {
        if !self.reserves() {
            return;
        }
        let print = self.print(key);
        let mut until = None;
        if let Some(hold) = self.exclusive.get_mut(print) {
            let entry = hold.entry.entry();
            if entry.reserved {
                until = entry.end;
                hold.entry.set(Entry {
                    reserved: false,
                    ..entry
                });
            }
        } else if let Some(shares) = self.shared.get_mut(print) {
            until = shares.reserved_until.take();
        }
        if let Some(until) = until {
            self.reserved.remove(&(until, Box::from(key)));
        }
    }

    /// An operator ends the hold for which a lock is reserved, by then.
    pub fn end_reserved_by(&mut self, key: &[u8], last: Ms) {
        let print = self.print(key);
        let Some(hold) = self.exclusive.get_mut(print) else {
            return;
        };
        let entry = hold.entry.entry();
        let Some(end) = entry.end.filter(|_| entry.reserved) else {
            return;
        };
        hold.entry.set(Entry {
            end: Some(end.min(last)),
            breaking: true,
            ..entry
        });
        self.reserved.remove(&(end, Box::from(key)));
        self.reserved.insert((end.min(last), Box::from(key)));
    }

    /// The keys of some, about so many: of all that are looked at again at this time or later, up to a time
    /// that is the last for all of its own. And from when on there are others.
    pub fn some_reserved(&self, from: Ms, about: usize) -> (Vec<Box<[u8]>>, Option<Ms>) {
        let mut keys = Vec::new();
        let mut last = from;
        for (until, key) in self.reserved.range((from, Box::default())..) {
            if keys.len() >= about && *until != last {
                return (keys, Some(*until));
            }
            keys.push(key.clone());
            last = *until;
        }
        (keys, None)
    }

    /// When one of them is to be looked at again.
    pub fn next_reserved(&self) -> Option<Ms> {
        self.reserved.first().map(|&(until, _)| until)
    }

    /// One whose time it is.
    pub fn due_reservation(&mut self, now: Now) -> Option<Box<[u8]>> {
        let (until, _) = self.reserved.first()?;
        if !is_over(Some(*until), now) {
            return None;
        }
        let (_, key) = self.reserved.pop_first()?;
        Some(key)
    }

    /// Somebody else has touched this key: the holds that there are now end by the wall clock.
    pub fn end_by_wall(&mut self, key: &[u8], up_to: Fence) {
        if self.holds == 0 {
            return;
        }
        let print = self.print(key);
        if let Some(hold) = self.exclusive.get_mut(print) {
            let entry = hold.entry.entry();
            if entry.reserved {
                // What stands there now is somebody else's.
                self.forget(key);
            } else if !entry.by_wall {
                hold.entry.set(Entry {
                    end: None,
                    by_wall: true,
                    ..entry
                });
            }
        } else if let Some(shares) = self.shared.get_mut(print) {
            if shares.reserved_until.is_some() {
                self.forget(key);
            } else {
                shares.end_by_wall(up_to);
            }
        }
    }

    /// Does the key of this lock have the ends that are remembered, now that the wall clock has been stepped so
    /// often?
    pub fn agrees(&self, key: &[u8], steps: u64) -> bool {
        let shares = self.shared.get(self.print(key));
        shares.is_none_or(|shares| shares.agree_after == steps)
    }

    /// It does.
    pub fn agree(&mut self, key: &[u8], steps: u64) {
        let print = self.print(key);
        if let Some(shares) = self.shared.get_mut(print) {
            shares.agree_after = steps;
        }
    }
}
