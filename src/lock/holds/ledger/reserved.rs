//! Locks whose keys expired too early because the wall clock was set forward. They are reserved: no other
//! owner is granted them before the hold ends by our own clock.

use crate::lock::holds::ledger::entry::Entry;
use crate::lock::holds::ledger::maybe::Maybe;
use crate::lock::holds::ledger::token::Token;
use crate::lock::holds::ledger::{Former, Ledger};
use crate::lock::holds::wall::EARLY;
use crate::lock::words::{Fence, Hold, Ms, Now, is_over};

impl Ledger {
    #[inline]
    pub fn has_reserved(&self) -> bool {
        !self.reserved.is_empty()
    }

    /// This key has expired. Reserves the lock if a hold lasts by our clock although the wall clock has passed its
    /// expiry, as `has_passed` says by its first number and its end. Returns whether it did.
    pub fn reserve(
        &mut self,
        key: &[u8],
        now: Now,
        has_passed: &dyn Fn(Fence, Ms) -> bool,
    ) -> bool {
        if self.holds == 0 {
            return false;
        }
        let print = self.swept_print(key);
        let lasts = |end: Ms| end >= now.plus(EARLY);
        if let Some(hold) = self.exclusive.get_mut(print) {
            let entry = &mut hold.entry;
            let is_too_early = |end| !entry.by_wall && lasts(end) && has_passed(entry.first, end);
            let Some(end) = entry.end.get().filter(|&end| is_too_early(end)) else {
                return false;
            };
            entry.reserved = true;
            self.reserved.insert((end, Box::from(key)));
            return true;
        }
        let Some(shares) = self.shared.get_mut(print) else {
            return false;
        };
        let until = match shares.last_end(now) {
            Some(last) if lasts(last) && shares.have_all_passed(now, has_passed) => last,
            _ => return false,
        };
        if let Some(before) = shares.reserved_until.replace(until) {
            self.reserved.remove(&(before, Box::from(key)));
        }
        self.reserved.insert((until, Box::from(key)));
        true
    }

    /// Has this key expired too early, and is its lock reserved, even if the holds have ended since?
    pub fn is_reserved(&self, key: &[u8]) -> bool {
        if !self.has_reserved() {
            return false;
        }
        let print = self.print(key);
        let alone = self.exclusive.get(print).is_some_and(|hold| hold.entry.reserved);
        let shares = || self.shared.get(print).is_some_and(|all| all.reserved_until.is_some());
        (alone || shares()) && !self.key_has_left(print)
    }

    /// The owner for which this lock is reserved exclusively, and when its hold ends.
    pub fn reserved_alone(&self, key: &[u8], now: Now) -> Option<(Token, Ms)> {
        let hold = self.exclusive.get(self.print(key))?;
        let entry = &hold.entry;
        let end = entry.end.get().filter(|&end| entry.reserved && !is_over(Some(end), now))?;
        (!self.entry_has_left(entry)).then(|| (hold.owner.token(), end))
    }

    /// Forgets and returns the shares of a reserved lock that have ended.
    pub fn prune_reserved(&mut self, key: &[u8], now: Now) -> Vec<Former> {
        if !self.has_reserved() {
            return Vec::new();
        }
        let print = self.swept_print(key);
        match self.shared.get(print) {
            // Those that end by the wall clock have ended, because the key has expired.
            Some(shares) if shares.reserved_until.is_some() => {
                self.take_shares(key, |_, entry| !entry.lasts(now))
            }
            _ => Vec::new(),
        }
    }

    /// Forgets and returns the holds of a lock that is not reserved which are over by our clock.
    pub fn take_over(&mut self, key: &[u8], now: Now) -> Vec<Former> {
        if self.holds == 0 {
            return Vec::new();
        }
        match self.exclusive.get(self.print(key)) {
            Some(hold) if hold.entry.is_over(now) => self.take(key),
            Some(_) => Vec::new(),
            None => self.take_shares(key, |_, entry| entry.is_over(now)),
        }
    }

    /// How this owner holds the lock, if the lock is reserved for it.
    pub fn reserved_for(&self, key: &[u8], owner: &[u8], now: Now) -> Option<(Hold, Entry)> {
        if !self.has_reserved() {
            return None;
        }
        [Hold::Exclusive, Hold::Shared]
            .into_iter()
            .find_map(|hold| Some((hold, self.of(key, owner, hold)?)))
            .filter(|(_, entry)| entry.reserved && entry.lasts(now))
    }

    /// The owners that share this lock, if it is reserved; and when each share ends.
    pub fn each_reserved(
        &self,
        key: &[u8],
        now: Now,
    ) -> impl Iterator<Item = (Token, Ms)> + use<'_> {
        let print = self.print(key);
        let shares = self.shared.get(print).filter(|_| !self.key_has_left(print));
        let shares = shares.filter(|shares| shares.reserved_until.is_some());
        shares.into_iter().flat_map(move |shares| shares.each_lasting(now))
    }

    /// Ends the reservation: the key has been written again, by us or by another command.
    pub fn end_reservation(&mut self, key: &[u8]) {
        if !self.has_reserved() {
            return;
        }
        let print = self.print(key);
        let mut until = None;
        if let Some(hold) = self.exclusive.get_mut(print) {
            let entry = &mut hold.entry;
            if std::mem::take(&mut entry.reserved) {
                until = entry.end.get();
            }
        } else if let Some(shares) = self.shared.get_mut(print) {
            until = shares.reserved_until.take();
        }
        if let Some(until) = until {
            self.reserved.remove(&(until, Box::from(key)));
        }
    }

    /// Some keys of reserved locks, about so many: those that are to be checked again at `from` or later. Keys
    /// of the same millisecond are not separated. Also returns the time to continue from, if there are more.
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

    /// When the first reservation is to be checked again.
    pub fn next_reserved(&self) -> Option<Ms> {
        self.reserved.first().map(|&(until, _)| until)
    }

    /// Takes out one reserved lock that is to be checked again by now.
    pub fn due_reservation(&mut self, now: Now) -> Option<Box<[u8]>> {
        let (until, _) = self.reserved.first()?;
        if !is_over(Some(*until), now) {
            return None;
        }
        let (_, key) = self.reserved.pop_first()?;
        Some(key)
    }

    /// Another command has touched this key: its holds end by the wall clock from now on.
    pub fn end_by_wall(&mut self, key: &[u8]) {
        if self.holds == 0 {
            return;
        }
        let print = self.print(key);
        if let Some(hold) = self.exclusive.get_mut(print) {
            (hold.entry.end, hold.entry.by_wall) = (Maybe::NONE, true);
        } else if let Some(shares) = self.shared.get_mut(print) {
            shares.end_by_wall();
        }
    }
}
