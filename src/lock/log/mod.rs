//! The log that LOCK.LOG shows: the last holds that ended without being released by their owners, and why.
//! It only records, and changes no lock.

pub mod entry;

use std::collections::{BTreeMap, BTreeSet};

use crate::lock::log::entry::{About, CameBack, LateUse, LogEntry, LostHold, Reason, Truncated};
use crate::lock::words::{Db, Ms, NameRef, Now, Print, Secret};

/// Losses of one lock for one reason share a line if no more time than this lies between them, as in ACL LOG.
const ONE_LINE: Ms = 60_000;

/// A hold that has been lost, or several of one lock at once.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'a> {
    pub reason: Reason,
    /// How many holds were lost. The other fields are about one of them.
    pub count: usize,
    pub name: NameRef<'a>,
    pub owner: &'a [u8],
    pub hold: LostHold,
}

/// The log. Its lines are in order of when a loss was last added to each.
#[derive(Debug)]
pub struct LossLog {
    /// The key of the hashes of owners, by which a line knows them although it shows them cut.
    secret: Secret,
    most: usize,
    /// The lines, by their places in the order.
    lines: BTreeMap<u64, LogEntry>,
    /// The places of lines that are about one lock, by that lock.
    of_key: BTreeSet<(Db, Print, u64)>,
    last_place: u64,
    next_id: u64,
}

impl LossLog {
    pub fn new(most: u64, secret: Secret) -> Self {
        let (lines, of_key) = (BTreeMap::new(), BTreeSet::new());
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self { secret, most, lines, of_key, last_place: 0, next_id: 0 }
    }

    /// Changes how many lines are kept. The oldest are removed if there are more.
    pub fn set_most(&mut self, most: u64) {
        self.most = usize::try_from(most).unwrap_or(usize::MAX);
        self.shorten();
    }

    /// Is nothing logged, because no lines are kept?
    pub fn is_off(&self) -> bool {
        self.most == 0
    }

    /// Removes all lines. The numbers of later lines go on from theirs.
    pub fn reset(&mut self) {
        self.lines.clear();
        self.of_key.clear();
    }

    /// The lines, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &LogEntry> {
        self.lines.values().rev()
    }

    /// Logs a hold that was lost.
    pub fn add_loss(&mut self, loss: &Loss<'_>, now: Now) {
        if self.is_off() {
            return;
        }
        let print = loss.name.print;
        let owner_print = self.secret.half_print(loss.owner);
        let is_same = |line: &LogEntry| {
            line.reason == loss.reason && now.ms().saturating_sub(line.updated.ms()) <= ONE_LINE
        };
        let same = self.of_key(loss.name.db, print).find(|(_, line)| is_same(line));
        let same = same.map(|(place, _)| place);
        let mut line = (same.and_then(|place| self.take(place)))
            .unwrap_or_else(|| self.new_line(loss.reason, Some(loss.name.db), now));
        let (key, owner) = (Truncated::of(loss.name.key), Truncated::of(loss.owner));
        let about = About { key, print, owner, owner_print };
        let count = u64::try_from(loss.count).unwrap_or(u64::MAX);
        line.count = line.count.saturating_add(count);
        line.lost = Some((about, loss.hold));
        line.updated = now;
        line.came_back = None;
        self.add(line);
    }

    /// Logs that one database or all of them were flushed, with this many holds.
    pub fn add_flush(&mut self, db: Option<Db>, holds: usize, now: Now) {
        if self.is_off() || holds == 0 {
            return;
        }
        let mut line = self.new_line(Reason::Flushed, db, now);
        line.count = u64::try_from(holds).unwrap_or(u64::MAX);
        self.add(line);
    }

    /// Notes that this owner has used a hold that it lost, if it is in the log. Only the first time is kept.
    /// Returns why it was lost, if it is in the log.
    pub fn note_comeback(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        with: LateUse,
        now: Now,
    ) -> Option<Reason> {
        let owner_print = self.secret.half_print(owner);
        let its = |line: &LogEntry| (line.lost.as_ref()).map(|(about, _)| about.owner_print);
        let (place, _) =
            self.of_key(name.db, name.print).find(|(_, line)| its(line) == Some(owner_print))?;
        let line = self.lines.get_mut(&place)?;
        let ended = line.lost.as_ref().and_then(|(_, hold)| hold.ended);
        let late = ended.map(|ended| now.ms().saturating_sub(ended));
        line.came_back.get_or_insert(CameBack { with, late });
        Some(line.reason)
    }

    /// The lines about one lock, the newest first, with their places.
    fn of_key(&self, db: Db, print: Print) -> impl Iterator<Item = (u64, &LogEntry)> {
        let places = self.of_key.range((db, print, 0)..=(db, print, u64::MAX));
        places.rev().filter_map(|&(_, _, place)| Some((place, self.lines.get(&place)?)))
    }

    /// Removes and returns the line at this place.
    fn take(&mut self, place: u64) -> Option<LogEntry> {
        let line = self.lines.remove(&place)?;
        if let (Some(db), Some((about, _))) = (line.db, &line.lost) {
            self.of_key.remove(&(db, about.print, place));
        }
        Some(line)
    }

    /// Adds a line as the newest.
    fn add(&mut self, line: LogEntry) {
        self.last_place = self.last_place.saturating_add(1);
        if let (Some(db), Some((about, _))) = (line.db, &line.lost) {
            self.of_key.insert((db, about.print, self.last_place));
        }
        self.lines.insert(self.last_place, line);
        self.shorten();
    }

    /// Removes the oldest lines if there are too many.
    fn shorten(&mut self) {
        while self.lines.len() > self.most
            && let Some((&oldest, _)) = self.lines.first_key_value()
        {
            self.take(oldest);
        }
    }

    /// A new line that counts nothing yet.
    fn new_line(&mut self, reason: Reason, db: Option<Db>, now: Now) -> LogEntry {
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        LogEntry {
            id,
            count: 0,
            reason,
            db,
            lost: None,
            created: now,
            updated: now,
            came_back: None,
        }
    }
}

#[cfg(test)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "small numbers, and a test fails by a panic"
)]
mod tests;
