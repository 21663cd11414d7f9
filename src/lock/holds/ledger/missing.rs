//! Locks whose keys expired too early because the wall clock was set forward. They are held as before, and their keys
//! are written again as soon as that may be; see [`step`](crate::lock::holds).

use crate::lock::holds::ledger::entry::{End, Entry};
use crate::lock::holds::ledger::held::Held;
use crate::lock::holds::ledger::{Former, Ledger};
use crate::lock::holds::wall::EARLY;
use crate::lock::words::{Fence, Hold, Ms, NameRef, Now};

impl Ledger {
    /// This key has expired. Marks the lock as held without its key if a hold lasts by our clock although the wall
    /// clock has passed the expiry of all that do, as `has_passed` says by their numbers and their ends. The key expires
    /// with the last of them. Returns whether it did.
    pub fn note_missing(
        &mut self,
        name: NameRef<'_>,
        now: Now,
        has_passed: &dyn Fn(Fence, Ms) -> bool,
    ) -> bool {
        if self.remembers_nothing() {
            return false;
        }
        self.drop_if_left(name);
        let Some(held) = self.locks.get_mut(name.print) else {
            return false;
        };
        let lasting = |entry: &Entry| Some((entry.number.get(), entry.end.lasts_until(now)?));
        let last = held
            .entries()
            .filter_map(lasting)
            .try_fold(0, |last, (number, end)| has_passed(number, end).then_some(end.max(last)));
        let missing = last.is_some_and(|last| last >= now.plus(EARLY));
        if missing {
            held.move_ends(End::without_key);
        }
        missing
    }

    /// Has the key of this lock expired too early, even if the holds have ended since?
    pub fn is_missing(&self, name: NameRef<'_>) -> bool {
        self.held(name).is_some_and(Held::is_missing)
    }

    /// The record of this lock, if it is held without its key.
    pub fn missing(&self, name: NameRef<'_>) -> Option<&Held> {
        self.held(name).filter(|held| held.is_missing())
    }

    /// Forgets and returns the holds of a lock without its key that have ended.
    pub fn take_over_missing(&mut self, name: NameRef<'_>, now: Now) -> Vec<Former> {
        match self.missing(name) {
            // Those that end by the wall clock have ended, because the key has expired.
            Some(held) if held.hold() == Hold::Shared => {
                self.take_those(name, |_, entry| entry.end.lasts_until(now).is_none())
            }
            _ => Vec::new(),
        }
    }

    /// Forgets and returns the holds of a lock with its key which are over by our clock.
    pub fn take_over(&mut self, name: NameRef<'_>, now: Now) -> Vec<Former> {
        self.take_those(name, |_, entry| entry.is_over(now))
    }

    /// How this owner holds a lock without its key, and until when.
    pub fn missing_of(&self, name: NameRef<'_>, owner: &[u8], now: Now) -> Option<(Hold, Ms)> {
        let (hold, entry) = self.get(name, owner).filter(|(_, entry)| entry.end.is_missing())?;
        Some((hold, entry.end.lasts_until(now)?))
    }

    /// The key has been written again, by us or by another command.
    pub fn note_there(&mut self, name: NameRef<'_>) {
        self.move_ends(name, End::with_key);
    }

    /// Another command has touched this key: its holds end by the wall clock from now on.
    pub fn end_by_wall(&mut self, name: NameRef<'_>) {
        if let Some(held) = self.locks.get_mut(name.print) {
            held.move_ends(|_| End::Key(None));
            held.touched();
        }
    }

    /// Those who share this lock were read from its key; see [`Held::were_read`].
    pub fn were_read(&mut self, name: NameRef<'_>, steps: u64) {
        if let Some(held) = self.locks.get_mut(name.print) {
            held.were_read(steps);
        }
    }

    /// Something has happened to this key, by which its holds end otherwise.
    pub fn move_ends(&mut self, name: NameRef<'_>, moved: impl Fn(End) -> End) {
        if let Some(held) = self.locks.get_mut(name.print) {
            held.move_ends(moved);
        }
    }
}
