//! Who holds one lock, as far as this server knows: one owner alone, or several that share it.

use crate::lock::holds::ledger::entry::{End, Entry};
use crate::lock::holds::ledger::owner::Owner;
use crate::lock::holds::ledger::table::{Record, Table};
use crate::lock::holds::ledger::token::Token;
use crate::lock::words::{Hold, Ms, Now, Print, Secret};

/// The record of one lock. The key is stored as a print, so that most records need no allocation.
///
/// If two keys have the same print all the same, one record replaces the other: an owner may be told another
/// fencing number than before. Who holds a lock is not affected, because the key says that.
#[derive(Debug)]
pub struct Held {
    key: Print,
    by: By,
}

#[derive(Debug)]
enum By {
    Alone(Holder),
    Sharers(Box<Sharers>),
}

/// One owner's hold.
#[derive(Debug)]
pub struct Holder {
    owner: Owner,
    pub entry: Entry,
}

/// The holds of the owners that share one lock, by the prints of the owners.
#[derive(Debug, Default)]
struct Sharers {
    by_owner: Table<Sharer>,
    sum: Sum,
}

#[derive(Debug)]
struct Sharer {
    owner: Print,
    holder: Holder,
}

/// How many holds are remembered, and how many of them were counted when they were granted. Those that were only seen
/// in a key are neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub holds: usize,
    pub counted: usize,
}

impl Sum {
    pub fn of(entry: &Entry) -> Self {
        Self { holds: usize::from(!entry.is_seen()), counted: usize::from(entry.is_counted()) }
    }

    pub fn add(&mut self, more: Self) {
        self.holds = self.holds.saturating_add(more.holds);
        self.counted = self.counted.saturating_add(more.counted);
    }

    pub fn subtract(&mut self, less: Self) {
        self.holds = self.holds.saturating_sub(less.holds);
        self.counted = self.counted.saturating_sub(less.counted);
    }
}

impl Record for Held {
    #[inline]
    fn print(&self) -> Print {
        self.key
    }
}

impl Record for Sharer {
    #[inline]
    fn print(&self) -> Print {
        self.owner
    }
}

impl Holder {
    pub fn owner(&self) -> Token {
        self.owner.token()
    }
}

impl Held {
    /// The record of a lock that no owner holds yet; `hold` says how it is about to be held.
    pub fn new(key: Print, hold: Hold, owner: &[u8], secret: Secret, entry: Entry) -> Self {
        let holder = Holder { owner: Owner::from(owner), entry };
        let by = match hold {
            Hold::Exclusive => By::Alone(holder),
            Hold::Shared => {
                let mut sharers = Box::new(Sharers::default());
                sharers.insert(secret.print(owner), holder);
                By::Sharers(sharers)
            }
        };
        Self { key, by }
    }

    #[inline]
    pub fn hold(&self) -> Hold {
        match self.by {
            By::Alone(_) => Hold::Exclusive,
            By::Sharers(_) => Hold::Shared,
        }
    }

    /// How many owners hold it, as far as is known.
    pub fn len(&self) -> usize {
        match &self.by {
            By::Alone(_) => 1,
            By::Sharers(sharers) => sharers.by_owner.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn sum(&self) -> Sum {
        match &self.by {
            By::Alone(holder) => Sum::of(&holder.entry),
            By::Sharers(sharers) => sharers.sum,
        }
    }

    pub fn each(&self) -> impl Iterator<Item = &Holder> {
        let (alone, sharers) = match &self.by {
            By::Alone(holder) => (Some(holder), None),
            By::Sharers(sharers) => (None, Some(sharers.by_owner.iter())),
        };
        alone.into_iter().chain(sharers.into_iter().flatten().map(|sharer| &sharer.holder))
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.each().map(|holder| &holder.entry)
    }

    /// The owners whose holds have not ended.
    pub fn owners(&self, now: Now) -> impl Iterator<Item = Token> {
        self.each().filter(move |holder| holder.entry.lasts(now)).map(Holder::owner)
    }

    /// The owners whose holds end by our clock and have not ended; and when each ends.
    pub fn lasting(&self, now: Now) -> impl Iterator<Item = (Token, Ms)> {
        let lasts = move |one: &Holder| Some((one.owner(), one.entry.end.lasts_until(now)?));
        self.each().filter_map(lasts)
    }

    /// The owner that holds it alone, and its hold.
    pub fn alone(&self) -> Option<&Holder> {
        match &self.by {
            By::Alone(holder) => Some(holder),
            By::Sharers(_) => None,
        }
    }

    /// Something has happened to the key, by which the holds end otherwise.
    pub fn move_ends(&mut self, moved: impl Fn(End) -> End) {
        self.each_mut(|entry, _| entry.end = moved(entry.end));
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
    pub fn want(&mut self, secret: Secret, mut count: impl FnMut(Print)) {
        let is_wanted = self.is_wanted();
        self.each_mut(|entry, print| {
            if !is_wanted {
                entry.is_wanted = true;
                count(print(secret));
            }
        });
    }

    /// Changes all entries; each with the print of its owner, if that is asked for.
    fn each_mut(&mut self, mut change: impl FnMut(&mut Entry, &dyn Fn(Secret) -> Print)) {
        match &mut self.by {
            By::Alone(Holder { owner, entry }) => {
                change(entry, &|secret| secret.print(owner.token().bytes()));
            }
            By::Sharers(sharers) => {
                for Sharer { owner, holder } in sharers.by_owner.iter_mut() {
                    change(&mut holder.entry, &|_| *owner);
                }
            }
        }
    }

    #[inline]
    pub fn get(&self, secret: Secret, owner: &[u8]) -> Option<&Entry> {
        let holder = match &self.by {
            By::Alone(holder) => Some(holder).filter(|holder| holder.owner.is(owner)),
            By::Sharers(sharers) => {
                sharers.by_owner.get(secret.print(owner)).map(|one| &one.holder)
            }
        };
        holder.map(|holder| &holder.entry)
    }

    /// Changes the entry of this owner, if there is one, and keeps the sum true. Returns what `change` does.
    pub fn change<T>(
        &mut self,
        secret: Secret,
        owner: &[u8],
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        match &mut self.by {
            By::Alone(holder) => holder.owner.is(owner).then(|| change(&mut holder.entry)),
            By::Sharers(sharers) => {
                let Sharers { by_owner, sum } = &mut **sharers;
                let entry = &mut by_owner.get_mut(secret.print(owner))?.holder.entry;
                sum.subtract(Sum::of(entry));
                let changed = change(entry);
                sum.add(Sum::of(entry));
                Some(changed)
            }
        }
    }

    /// Adds this owner to those that share the lock. Returns the hold that it had.
    pub fn share(&mut self, secret: Secret, owner: &[u8], entry: Entry) -> Option<Holder> {
        match &mut self.by {
            By::Alone(_) => None,
            By::Sharers(sharers) => {
                let holder = Holder { owner: Owner::from(owner), entry };
                sharers.insert(secret.print(owner), holder)
            }
        }
    }

    /// Takes this owner out of those that share the lock.
    pub fn unshare(&mut self, secret: Secret, owner: &[u8]) -> Option<Holder> {
        match &mut self.by {
            By::Alone(_) => None,
            By::Sharers(sharers) => {
                let holder = sharers.by_owner.remove(secret.print(owner))?.holder;
                sharers.sum.subtract(Sum::of(&holder.entry));
                Some(holder)
            }
        }
    }

    /// Its memory, to be freed in pieces.
    pub fn into_pieces(self) -> impl Iterator<Item = impl Sized> {
        match self.by {
            By::Alone(_) => None,
            By::Sharers(sharers) => Some(sharers.by_owner.into_buckets()),
        }
        .into_iter()
        .flatten()
    }
}

impl Sharers {
    fn insert(&mut self, owner: Print, holder: Holder) -> Option<Holder> {
        self.sum.add(Sum::of(&holder.entry));
        let before = self.by_owner.insert(Sharer { owner, holder })?.holder;
        self.sum.subtract(Sum::of(&before.entry));
        Some(before)
    }
}
