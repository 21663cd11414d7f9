//! Locks whose keys expired too early because the wall clock was set forward. They are held as before, and their keys
//! are written again as soon as that may be; see [`step`](crate::lock::holds).

use crate::lock::holds::ledger::entry::{End, Entry};
use crate::lock::holds::ledger::shares::Shares;
use crate::lock::holds::ledger::token::Token;
use crate::lock::holds::ledger::{Former, Ledger};
use crate::lock::holds::wall::EARLY;
use crate::lock::words::{Fence, Hold, Ms, Now};

impl Ledger {
    /// This key has expired. Marks the lock as held without its key if a hold lasts by our clock although the wall
    /// clock has passed its expiry, as `has_passed` says by its number and its end. Returns whether it did.
    pub fn note_missing(
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
            let Entry { number, ref mut end, .. } = hold.entry;
            let is_too_early = |at| lasts(at) && has_passed(number.get(), at);
            let missing = end.by_our_clock().is_some_and(is_too_early);
            if missing {
                *end = end.without_key();
            }
            return missing;
        }
        let Some(shares) = self.shared.get_mut(print) else {
            return false;
        };
        let missing =
            shares.last_end(now).is_some_and(lasts) && shares.have_all_passed(now, has_passed);
        if missing {
            shares.move_ends(End::without_key);
        }
        missing
    }

    /// Has the key of this lock expired too early, even if the holds have ended since?
    pub fn is_missing(&self, key: &[u8]) -> bool {
        let print = self.print(key);
        let alone = self.exclusive.get(print).is_some_and(|hold| hold.entry.end.is_missing());
        let shares = || self.shared.get(print).is_some_and(Shares::is_missing);
        (alone || shares()) && !self.key_has_left(print)
    }

    /// The owner that holds this lock alone without its key, and when its hold ends.
    pub fn missing_alone(&self, key: &[u8], now: Now) -> Option<(Token, Ms)> {
        let hold = self.exclusive.get(self.print(key))?;
        let entry = &hold.entry;
        let end = entry.end.lasts_until(now).filter(|_| entry.end.is_missing())?;
        (!self.entry_has_left(entry)).then(|| (hold.owner.token(), end))
    }

    /// Forgets and returns the shares of a lock without its key that have ended.
    pub fn take_over_missing(&mut self, key: &[u8], now: Now) -> Vec<Former> {
        let print = self.swept_print(key);
        match self.shared.get(print) {
            // Those that end by the wall clock have ended, because the key has expired.
            Some(shares) if shares.is_missing() => {
                self.take_shares(key, |_, entry| entry.end.lasts_until(now).is_none())
            }
            _ => Vec::new(),
        }
    }

    /// Forgets and returns the holds of a lock with its key which are over by our clock.
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

    /// How this owner holds a lock without its key.
    pub fn missing_of(&self, key: &[u8], owner: &[u8], now: Now) -> Option<(Hold, Entry)> {
        [Hold::Exclusive, Hold::Shared]
            .into_iter()
            .find_map(|hold| Some((hold, self.of(key, owner, hold)?)))
            .filter(|(_, entry)| entry.end.is_missing() && entry.end.lasts_until(now).is_some())
    }

    /// The owners that share a lock without its key, and when each share ends.
    pub fn each_missing(
        &self,
        key: &[u8],
        now: Now,
    ) -> impl Iterator<Item = (Token, Ms)> + use<'_> {
        let print = self.print(key);
        let shares = self.shared.get(print).filter(|_| !self.key_has_left(print));
        let shares = shares.filter(|shares| shares.is_missing());
        shares.into_iter().flat_map(move |shares| shares.each_lasting(now))
    }

    /// The key has been written again, by us or by another command.
    pub fn note_there(&mut self, key: &[u8]) {
        let print = self.print(key);
        if let Some(hold) = self.exclusive.get_mut(print) {
            hold.entry.end = hold.entry.end.with_key();
        } else if let Some(shares) = self.shared.get_mut(print) {
            shares.move_ends(End::with_key);
        }
    }

    /// Another command has touched this key: its holds end by the wall clock from now on.
    pub fn end_by_wall(&mut self, key: &[u8]) {
        if self.holds == 0 {
            return;
        }
        let print = self.print(key);
        if let Some(hold) = self.exclusive.get_mut(print) {
            hold.entry.end = End::Key(None);
        } else if let Some(shares) = self.shared.get_mut(print) {
            shares.move_ends(|_| End::Key(None));
        }
    }
}
