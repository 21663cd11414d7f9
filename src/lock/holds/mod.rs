//! Who holds which lock: what this server remembers of holds, brought together with what their keys say.
//!
//! Nothing here knows a queue. Holds that are found to have ended are returned, for the caller to log.

pub mod ledger;
pub mod look;
pub mod open;
mod step;
pub mod wall;

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::lock::databases::Databases;
use crate::lock::holds::ledger::discarded::Discarded;
use crate::lock::holds::ledger::{Entry, Former, Held, Ledger};
use crate::lock::holds::wall::WallClock;
use crate::lock::log::entry::Reason;
use crate::lock::words::{Db, Hold, Ms, Name, NameRef, Now, Secret, Slots};

/// How many forgotten records a tick frees.
const FREED: usize = 128;

/// How many buckets of each ledger a tick searches for slots that have left.
const SWEPT: usize = 16;

/// Who holds which lock.
#[derive(Debug)]
pub struct Holds {
    ledgers: Databases<Ledger>,
    pub wall: WallClock,
    /// Locks whose keys expired too early, by when each key is written again. It may have been written since, or the
    /// holds may have ended.
    missing: BTreeSet<(Ms, Name)>,
    /// Records that are forgotten, and have still to be freed.
    discarded: Discarded,
    secret: Secret,
}

/// A lock, and an owner that holds it.
pub type LockAndOwner = (Name, Rc<[u8]>);

/// A hold that has ended otherwise than by a release.
#[derive(Debug)]
pub struct Lost {
    pub former: Former,
    pub reason: Reason,
}

impl Lost {
    #[inline(always)]
    pub fn all(formers: Vec<Former>, reason: Reason) -> Vec<Self> {
        // So it is with each grant of a free lock.
        if formers.is_empty() {
            return Vec::new();
        }
        formers.into_iter().map(|former| Self { former, reason }).collect()
    }
}

impl Holds {
    pub fn new(secret: Secret) -> Self {
        Self {
            ledgers: Databases::new(secret, Ledger::new),
            wall: WallClock::default(),
            missing: BTreeSet::new(),
            discarded: Discarded::default(),
            secret,
        }
    }

    /// The name of this key.
    #[inline]
    pub fn name<'k>(&self, db: Db, key: &'k [u8]) -> NameRef<'k> {
        NameRef::new(db, key, self.secret)
    }

    /// What is remembered of this database's holds.
    #[inline]
    pub fn ledger(&mut self, db: Db) -> &mut Ledger {
        self.ledgers.open(db)
    }

    /// What is remembered of this owner's hold, if it holds the lock in this way.
    pub fn entry(&self, name: NameRef<'_>, owner: &[u8], hold: Hold) -> Option<Entry> {
        let (how, entry) = self.ledgers.get(name.db)?.get(name, owner)?;
        (how == hold).then_some(entry)
    }

    /// What is remembered of this owner's hold, with its owner.
    pub fn former(&self, name: NameRef<'_>, owner: &[u8]) -> Option<Former> {
        let (hold, entry) = self.ledgers.get(name.db)?.get(name, owner)?;
        Some(Former { owner: Box::from(owner), hold, entry })
    }

    /// The record of this lock.
    pub fn held(&self, name: NameRef<'_>) -> Option<&Held> {
        self.ledgers.get(name.db)?.held(name)
    }

    /// Is this owner in this record, as one whose hold has not ended?
    pub fn includes(&self, held: &Held, owner: &[u8], now: Now) -> bool {
        held.get(self.secret, owner).is_some_and(|entry| entry.end.lasts(now))
    }

    /// May this owner hold a lock of this database that others wait for?
    pub fn may_be_in_the_way(&self, db: Db, owner: &[u8]) -> bool {
        self.ledgers.get(db).is_some_and(|ledger| ledger.may_be_in_the_way(owner))
    }

    /// Is nothing remembered of this database's holds, or without one of any?
    pub fn remember_nothing(&self, db: Option<Db>) -> bool {
        !self.ledgers.any_of(db, |ledger| !ledger.locks.is_empty())
    }

    /// A connection has closed: removes up to `most` of its ties, in all databases together. Returns how many there
    /// were, and the holds that must be given back, each with its owner.
    pub fn close(&mut self, client: u64, most: usize) -> (usize, Vec<LockAndOwner>) {
        let (mut left, mut ended) = (most, Vec::new());
        for (db, ledger) in self.ledgers.iter_mut() {
            let (seen_to, ties) = ledger.close(db, client, left);
            left = left.saturating_sub(seen_to);
            ended.extend(ties.iter().map(|tie| {
                let (name, owner) = tie.name_and_owner(db, self.secret);
                (name.keep(), Rc::from(owner))
            }));
        }
        (most.saturating_sub(left), ended)
    }

    pub fn have_ties(&self, client: u64) -> bool {
        self.ledgers.any(|ledger| ledger.ties.has(client))
    }

    /// The count of this database, or the sum over all.
    pub fn count(&self, db: Option<Db>, count: fn(&Ledger) -> usize) -> usize {
        let counted = (self.ledgers.iter()).filter(|&(number, _)| db.is_none_or(|db| db == number));
        counted.map(|(_, ledger)| count(ledger)).sum()
    }

    /// A database was emptied, or all of them.
    pub fn forget_all_of(&mut self, db: Option<Db>) {
        for (number, ledger) in self.ledgers.iter_mut() {
            if db.is_none_or(|db| db == number) {
                let before = std::mem::replace(ledger, Ledger::new(self.secret));
                before.discard(&mut self.discarded);
            }
        }
    }

    /// These slots have left.
    pub fn slots_left(&mut self, slots: &Slots, now: Now) {
        for (_, ledger) in self.ledgers.iter_mut() {
            ledger.slots_left(slots, now);
        }
    }

    /// Is there memory to free, or a slot whose records are to be removed?
    pub fn have_to_clean_up(&self) -> bool {
        self.discarded.len() > 0 || self.ledgers.any(|ledger| ledger.has_left())
    }

    /// Frees some of what is forgotten, and removes some records of slots that have left.
    pub fn clean_up(&mut self) {
        for _ in 0..FREED {
            self.discarded.free_one();
        }
        for (db, ledger) in self.ledgers.iter_mut() {
            ledger.sweep(db, SWEPT, &mut self.discarded);
        }
    }

    /// How many collections are yet to be freed.
    pub fn discarded(&self) -> usize {
        self.discarded.len()
    }

    /// Frees these things later, one by one, if they are many.
    pub fn discard<T: 'static>(&mut self, things: impl ExactSizeIterator<Item = T> + 'static) {
        self.discarded.add(things.len(), things);
    }

    /// The locks whose keys are to be written again, and when.
    pub fn missing(&self) -> &BTreeSet<(Ms, Name)> {
        &self.missing
    }

    /// May a key have to be written again?
    #[inline(always)]
    pub fn are_missing_keys(&self) -> bool {
        !self.missing.is_empty()
    }

    /// May a lock be held without its key? A step may take a key in the middle of a turn, before it is noticed.
    pub fn may_miss_keys(&self, now: Now) -> bool {
        self.wall.is_stepped(now) || self.are_missing_keys()
    }

    /// This lock has been seen to. If its key is missing still, that is tried again at this time.
    pub fn seen_to(&mut self, due: (Ms, Name), again: Ms) {
        let missing = self.is_missing(due.1.borrow());
        self.missing.remove(&due);
        if missing {
            self.missing.insert((again, due.1));
        }
    }

    /// Has the key of this lock still to be written again?
    pub fn is_missing(&self, name: NameRef<'_>) -> bool {
        self.held(name).is_some_and(Held::is_missing)
    }
}

#[cfg(test)]
impl Holds {
    /// The ledgers, to be compared.
    pub fn ledgers(&self) -> impl Iterator<Item = (Db, &Ledger)> {
        self.ledgers.iter()
    }
}
