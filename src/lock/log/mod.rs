//! The last holds that did not end by their owners' release, and why: what LOCK.LOG shows. It knows
//! nothing of the locks, and changes none.

pub mod line;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::lock::ledger::print::Print;
use crate::lock::log::line::{About, CameBack, Comeback, Cut, Identity, Line, LostHold, Reason};
use crate::lock::name::{Db, NameRef};
use crate::lock::time::{Ms, Now};

/// Losses of one lock for one reason are counted in one line if no more time lies between them: as ACL
/// LOG does.
const ONE_LINE: Ms = 60_000;

/// So many of the last holds that a line counts are known one by one, so that none is counted twice.
const MOST_TOLD_APART: usize = 8;

/// A lock's name, and what it is found by.
#[derive(Clone, Copy, Debug)]
pub struct KeyOf<'a> {
    /// The name.
    pub name: NameRef<'a>,
    /// The key's print.
    pub print: Print,
}

/// A hold that has been lost, or several of one lock at once.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'a> {
    /// Why.
    pub reason: Reason,
    /// How many; what follows is about one of them.
    pub count: usize,
    /// Of which lock.
    pub of: KeyOf<'a>,
    /// Whose it was.
    pub owner: &'a [u8],
    /// What its owner is found by.
    pub owner_print: u64,
    /// What else is known of the hold.
    pub hold: LostHold,
}

/// The log, in the order of what was last added to each line.
#[derive(Debug, Default)]
pub struct LossLog {
    most: usize,
    lines: BTreeMap<u64, Line>,
    /// The same lines, by their locks.
    of_key: BTreeSet<(Db, Print, u64)>,
    last_place: u64,
    next_id: u64,
}

impl LossLog {
    /// Remembers so many lines.
    pub fn new(most: u64) -> Self {
        let mut log = Self::default();
        log.set_most(most);
        log
    }

    /// Remembers so many lines from now on, the newest of those that there are among them.
    pub fn set_most(&mut self, most: u64) {
        self.most = usize::try_from(most).unwrap_or(usize::MAX);
        self.shorten();
    }

    /// Is nothing remembered?
    pub fn is_off(&self) -> bool {
        self.most == 0
    }

    /// Forgets all lines. Those that follow go on with the next number.
    pub fn reset(&mut self) {
        self.lines.clear();
        self.of_key.clear();
    }

    /// The lines, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Line> {
        self.lines.values().rev()
    }

    /// A hold has been lost. One that is in the log already is not counted again.
    pub fn lost(&mut self, loss: &Loss<'_>, now: Now) {
        if self.is_off() || loss.count == 0 {
            return;
        }
        let of_key = self.of_key(loss.of.name.db, loss.of.print);
        let identity = Identity {
            owner: loss.owner_print,
            fence: loss.hold.fence,
            since: loss.hold.since,
        };
        let mut same = None;
        for (place, line) in of_key {
            if line.counted.contains(&identity) {
                return;
            }
            if same.is_none()
                && line.reason == loss.reason
                && now.ms().saturating_sub(line.updated.ms()) <= ONE_LINE
            {
                same = Some(place);
            }
        }
        let of_now = About {
            key: Cut::of(loss.of.name.key),
            print: loss.of.print,
            owner: Cut::of(loss.owner),
            owner_print: loss.owner_print,
        };
        let mut line = (same.and_then(|place| self.take(place)))
            .unwrap_or_else(|| self.new_line(loss.reason, Some(loss.of.name.db), now));
        let count = u64::try_from(loss.count).unwrap_or(u64::MAX);
        line.count = line.count.saturating_add(count);
        line.lost = Some((of_now, loss.hold));
        line.updated = now;
        line.came_back = None;
        line.counted.truncate(MOST_TOLD_APART.saturating_sub(1));
        line.counted.push_front(identity);
        self.add(line);
    }

    /// So many holds went with a database that was emptied, or with all of them.
    pub fn flushed(&mut self, db: Option<Db>, holds: usize, now: Now) {
        if self.is_off() || holds == 0 {
            return;
        }
        let mut line = self.new_line(Reason::Flushed, db, now);
        line.count = u64::try_from(holds).unwrap_or(u64::MAX);
        self.add(line);
    }

    /// This owner has asked for a hold that it has not got any more. Is it one that the log has? That is
    /// noted; by its first time alone.
    pub fn came_back(&mut self, of: KeyOf<'_>, owner_print: u64, with: Comeback, now: Now) -> bool {
        let is_its = |line: &Line| {
            let lost = line.lost.as_ref();
            lost.is_some_and(|(about, _)| about.owner_print == owner_print)
        };
        let place = (self.of_key(of.name.db, of.print))
            .find(|(_, line)| is_its(line))
            .map(|(place, _)| place);
        if let Some(line) = place.and_then(|place| self.lines.get_mut(&place))
            && let Some((_, hold)) = &mut line.lost
        {
            line.came_back.get_or_insert(CameBack {
                with,
                late: hold.ended.map(|ended| now.ms().saturating_sub(ended)),
            });
        }
        place.is_some()
    }

    /// Those of one key, the newest first.
    fn of_key(&self, db: Db, print: Print) -> impl Iterator<Item = (u64, &Line)> {
        let places = self.of_key.range((db, print, 0)..=(db, print, u64::MAX));
        places
            .rev()
            .filter_map(|&(_, _, place)| Some((place, self.lines.get(&place)?)))
    }

    fn take(&mut self, place: u64) -> Option<Line> {
        let line = self.lines.remove(&place)?;
        if let (Some(db), Some((about, _))) = (line.db, &line.lost) {
            self.of_key.remove(&(db, about.print, place));
        }
        Some(line)
    }

    fn add(&mut self, line: Line) {
        self.last_place = self.last_place.saturating_add(1);
        if let (Some(db), Some((about, _))) = (line.db, &line.lost) {
            self.of_key.insert((db, about.print, self.last_place));
        }
        self.lines.insert(self.last_place, line);
        self.shorten();
    }

    fn shorten(&mut self) {
        while self.lines.len() > self.most
            && let Some((&oldest, _)) = self.lines.first_key_value()
        {
            self.take(oldest);
        }
    }

    /// One that counts nothing yet.
    fn new_line(&mut self, reason: Reason, db: Option<Db>, now: Now) -> Line {
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        Line {
            id,
            count: 0,
            reason,
            db,
            counted: VecDeque::new(),
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
