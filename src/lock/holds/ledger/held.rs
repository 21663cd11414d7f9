//! Who holds one lock, as far as this server knows: one owner alone, or several that share it.

use crate::lock::holds::ledger::entry::{End, Entry};
use crate::lock::holds::ledger::owner::Owner;
use crate::lock::holds::ledger::table::Table;
use crate::lock::holds::wall::EARLY;
use crate::lock::words::{Hold, Ms, Now, Secret};

/// The record of one lock, by the print of its key, so that most records need no allocation.
///
/// If two keys have the same print all the same, one record replaces the other: an owner may be told another
/// fencing token than before. Who holds a lock is not affected, because the key says that.
#[derive(Debug)]
pub enum Held {
    Alone(Holder),
    Shared(Box<Sharers>),
}

#[derive(Debug, Default)]
pub struct Sharers {
    by_print: Table<Holder>,
    /// Has another client changed the key since, or was one added that ends with the key? It may have put one in place of
    /// another, and ends at another time after a step of the wall clock.
    is_touched: bool,
    /// After how many steps of the wall clock they were read from the key. What others have written there ends at
    /// another time after the next.
    read_after: Option<u16>,
}

/// One owner's hold.
#[derive(Debug)]
pub struct Holder {
    pub owner: Owner,
    pub entry: Entry,
}

/// How many holds are remembered, and how many of them were counted when they were granted. Those that were only seen
/// in a key are neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub holds: usize,
    pub counted: usize,
}

impl Sum {
    pub fn add(&mut self, entry: &Entry) {
        self.holds = self.holds.saturating_add((!entry.is_seen()).into());
        self.counted = self.counted.saturating_add(entry.is_counted().into());
    }

    pub fn subtract(&mut self, entry: &Entry) {
        self.holds = self.holds.saturating_sub((!entry.is_seen()).into());
        self.counted = self.counted.saturating_sub(entry.is_counted().into());
    }
}

impl Held {
    /// The record of a lock that no owner holds yet; `hold` says how it is about to be held.
    pub fn new(hold: Hold, owner: &[u8], secret: Secret, entry: Entry) -> Self {
        if hold == Hold::Exclusive {
            return Self::Alone(Holder { owner: Owner::from(owner), entry });
        }
        let mut held = Self::Shared(Box::default());
        held.share(secret, owner, entry);
        held
    }

    #[inline]
    pub fn hold(&self) -> Hold {
        match self {
            Self::Alone(_) => Hold::Exclusive,
            Self::Shared(_) => Hold::Shared,
        }
    }

    /// How many owners hold it, as far as is known.
    pub fn len(&self) -> usize {
        match self {
            Self::Alone(_) => 1,
            Self::Shared(sharers) => sharers.by_print.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn each(&self) -> impl Iterator<Item = &Holder> {
        let (alone, sharers) = match self {
            Self::Alone(holder) => (Some(holder), None),
            Self::Shared(sharers) => (None, Some(sharers.by_print.iter())),
        };
        alone.into_iter().chain(sharers.into_iter().flatten())
    }

    /// Visits each owner that holds it.
    #[inline]
    pub fn visit(&self, visit: impl FnMut(&Holder)) {
        match self {
            Self::Alone(holder) => Some(holder).into_iter().for_each(visit),
            Self::Shared(sharers) => sharers.by_print.iter().for_each(visit),
        }
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.each().map(|holder| &holder.entry)
    }

    /// The owners whose holds have not ended.
    pub fn owners(&self, now: Now) -> impl Iterator<Item = Box<[u8]>> {
        self.each().filter(move |holder| holder.entry.end.lasts(now)).map(|one| one.owner.bytes())
    }

    /// The owners whose holds end by our clock and have not ended; and when each ends.
    pub fn lasting(&self, now: Now) -> impl Iterator<Item = (Box<[u8]>, Ms)> {
        let lasts = move |one: &Holder| Some((one.owner.bytes(), one.entry.end.lasts_until(now)?));
        self.each().filter_map(lasts)
    }

    /// The owner that holds it alone, and its hold.
    pub fn alone(&self) -> Option<&Holder> {
        match self {
            Self::Alone(holder) => Some(holder),
            Self::Shared(_) => None,
        }
    }

    /// Another client has changed the key: the holds end by the wall clock from now on.
    pub fn touched(&mut self) {
        self.move_ends(|_| End::Key(None));
        if let Self::Shared(sharers) = self {
            sharers.is_touched = true;
        }
    }

    /// Those who share the lock were read from its key, after so many steps of the wall clock.
    pub fn were_read(&mut self, steps: u16) {
        if let Self::Shared(sharers) = self {
            (sharers.is_touched, sharers.read_after) = (false, Some(steps));
        }
    }

    /// May others share the lock than those that are known, or for another time?
    pub fn are_in_doubt(&self, steps: u16) -> bool {
        match self {
            Self::Alone(_) => false,
            Self::Shared(sharers) => {
                sharers.is_touched || sharers.read_after.is_some_and(|read| read != steps)
            }
        }
    }

    /// The key has expired. Marks the lock as held without its key if a hold lasts by our clock although the wall clock has
    /// passed the expiry of all that do, as `has_passed` says by their ends. The key expires with the last of them. Returns
    /// whether it did.
    pub fn note_missing(&mut self, now: Now, has_passed: &dyn Fn(End) -> bool) -> bool {
        let lasting = |entry: &Entry| Some((entry.end, entry.end.lasts_until(now)?));
        let last = (self.entries().filter_map(lasting))
            .try_fold(0, |last, (end, at)| has_passed(end).then_some(at.max(last)));
        let is_missing = last.is_some_and(|last| last >= now.plus(EARLY));
        if is_missing {
            self.move_ends(End::without_key);
        }
        is_missing
    }

    /// Something has happened to the key, by which the holds end otherwise.
    pub fn move_ends(&mut self, moved: impl Fn(End) -> End) {
        self.each_mut(|holder| holder.entry.end = moved(holder.entry.end));
    }

    /// Do the ends in the key agree with the record, after so many steps of the wall clock? If one owner holds it alone, the
    /// end in the record counts.
    pub fn is_synced(&self, steps: u16) -> bool {
        self.alone().is_some() || self.entries().all(|entry| entry.end.is_synced(steps))
    }

    /// Has the key expired too early, even if the holds have ended since?
    pub fn is_missing(&self) -> bool {
        self.entries().any(|entry| entry.end.is_missing())
    }

    /// Are its holders counted among those that others wait for? All are, or none.
    pub fn is_wanted(&self) -> bool {
        self.entries().next().is_some_and(|entry| entry.is_wanted)
    }

    /// Counts its holders among those that others wait for.
    pub fn want(&mut self, mut count: impl FnMut(u64)) {
        if !self.is_wanted() {
            self.each_mut(|holder| {
                holder.entry.is_wanted = true;
                count(holder.owner.short_hash());
            });
        }
    }

    fn each_mut(&mut self, mut change: impl FnMut(&mut Holder)) {
        match self {
            Self::Alone(holder) => change(holder),
            Self::Shared(sharers) => sharers.by_print.iter_mut().for_each(change),
        }
    }

    #[inline]
    pub fn get(&self, secret: Secret, owner: &[u8]) -> Option<&Entry> {
        let holder = match self {
            Self::Alone(holder) => Some(holder).filter(|holder| holder.owner.is(owner)),
            Self::Shared(sharers) => sharers.by_print.get(secret.print(owner)),
        };
        holder.map(|holder| &holder.entry)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, secret: Secret, owner: &[u8]) -> Option<&mut Entry> {
        let holder = match self {
            Self::Alone(holder) => Some(holder).filter(|holder| holder.owner.is(owner)),
            Self::Shared(sharers) => sharers.by_print.get_mut(secret.print(owner)),
        };
        holder.map(|holder| &mut holder.entry)
    }

    /// Adds this owner to those that share the lock. Returns the hold that it had.
    pub fn share(&mut self, secret: Secret, owner: &[u8], entry: Entry) -> Option<Holder> {
        match self {
            Self::Alone(_) => None,
            Self::Shared(sharers) => {
                sharers.is_touched |= entry.end.by_our_clock().is_none();
                let holder = Holder { owner: Owner::from(owner), entry };
                sharers.by_print.insert(secret.print(owner), holder)
            }
        }
    }

    /// Takes this owner out of those that share the lock.
    pub fn unshare(&mut self, secret: Secret, owner: &[u8]) -> Option<Holder> {
        match self {
            Self::Alone(_) => None,
            Self::Shared(sharers) => sharers.by_print.remove(secret.print(owner)),
        }
    }

    /// Its memory, to be freed in pieces.
    pub fn into_pieces(self) -> impl Iterator<Item = impl Sized> {
        match self {
            Self::Alone(_) => None,
            Self::Shared(sharers) => Some(sharers.by_print.into_buckets()),
        }
        .into_iter()
        .flatten()
    }
}
