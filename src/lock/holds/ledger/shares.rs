//! The entries of the owners that share one lock.

use crate::lock::holds::ledger::Former;
use crate::lock::holds::ledger::entry::{End, Entry};
use crate::lock::holds::ledger::owner::Owner;
use crate::lock::holds::ledger::table::{Record, Table};
use crate::lock::holds::ledger::token::Token;
use crate::lock::words::{Fence, Hold, Ms, Now, Print, Secret};

/// The entries of one shared lock.
#[derive(Debug)]
pub struct Shares {
    of_key: Print,
    /// By the prints of their owners.
    of_owner: Table<ShareEntry>,
    /// How many shares end with a connection.
    tied: u32,
    /// How many shares were counted when they were granted.
    counted: u32,
}

/// The entry of one owner's share.
#[derive(Debug)]
pub struct ShareEntry {
    print: Print,
    owner: Owner,
    pub entry: Entry,
}

impl ShareEntry {
    pub fn owner(&self) -> Token {
        self.owner.token()
    }
}

impl Record for Shares {
    fn print(&self) -> Print {
        self.of_key
    }
}

impl Record for ShareEntry {
    fn print(&self) -> Print {
        self.print
    }
}

impl Shares {
    pub fn new(of_key: Print) -> Self {
        Self { of_key, of_owner: Table::default(), tied: 0, counted: 0 }
    }

    pub fn len(&self) -> usize {
        self.of_owner.len()
    }

    pub fn is_empty(&self) -> bool {
        self.of_owner.is_empty()
    }

    /// How many shares were counted when they were granted.
    pub fn counted(&self) -> usize {
        usize::try_from(self.counted).unwrap_or(usize::MAX)
    }

    pub fn any_tied(&self) -> bool {
        self.tied > 0
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.of_owner.iter().map(|share| &share.entry)
    }

    /// The entry of any share.
    pub fn any(&self) -> Option<&Entry> {
        self.entries().next()
    }

    /// All entries, with their owners.
    pub fn each(&self) -> impl Iterator<Item = &ShareEntry> {
        self.of_owner.iter()
    }

    /// All entries, a few at a time, to be freed.
    pub fn into_pieces(self) -> impl Iterator<Item = impl Sized> {
        self.of_owner.into_buckets()
    }

    /// What is remembered of each share, for when it is forgotten.
    #[cold]
    pub fn former(&self) -> Vec<Former> {
        let former = self.each().map(|share| Former {
            owner: share.owner(),
            hold: Hold::Shared,
            entry: share.entry,
        });
        former.collect()
    }

    pub fn get(&self, secret: Secret, owner: &[u8]) -> Option<Entry> {
        self.of_owner.get(secret.print(owner)).map(|share| share.entry)
    }

    /// Adds or replaces the entry of this owner's share. Returns the one before.
    pub fn insert(&mut self, secret: Secret, owner: &[u8], entry: Entry) -> Option<Entry> {
        let (print, stored) = (secret.print(owner), Owner::from(owner));
        let before = self.of_owner.insert(ShareEntry { print, owner: stored, entry });
        let before = before.map(|share| share.entry);
        self.count(before.as_ref(), Some(&entry));
        before
    }

    /// Changes the entry of this owner's share, if there is one, and keeps the counts true.
    pub fn change<T>(
        &mut self,
        secret: Secret,
        owner: &[u8],
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let share = self.of_owner.get_mut(secret.print(owner))?;
        let before = share.entry;
        let changed = change(&mut share.entry);
        let after = share.entry;
        self.count(Some(&before), Some(&after));
        Some(changed)
    }

    /// Removes and returns the entry of this owner's share.
    pub fn remove(&mut self, secret: Secret, owner: &[u8]) -> Option<Entry> {
        let share = self.of_owner.remove(secret.print(owner))?;
        self.count(Some(&share.entry), None);
        Some(share.entry)
    }

    /// Something has happened to the key, by which the shares end otherwise.
    pub fn move_ends(&mut self, moved: impl Fn(End) -> End) {
        for share in self.of_owner.iter_mut() {
            share.entry.end = moved(share.entry.end);
        }
    }

    /// Has the key expired too early, even if the shares have ended since?
    pub fn is_missing(&self) -> bool {
        self.entries().any(|entry| entry.end.is_missing())
    }

    /// When the last of the shares ends that end by our clock and have not ended.
    pub fn last_end(&self, now: Now) -> Option<Ms> {
        self.entries().filter_map(|entry| entry.end.lasts_until(now)).max()
    }

    /// Has the wall clock passed the expiry of every share that ends by our clock and has not ended? The key expires
    /// with the last of them.
    pub fn have_all_passed(&self, now: Now, has_passed: &dyn Fn(Fence, Ms) -> bool) -> bool {
        self.entries().all(|Entry { number, end, .. }| {
            end.lasts_until(now).is_none_or(|end| has_passed(number.get(), end))
        })
    }

    /// The owners whose shares end by our clock and have not ended; and when each ends.
    pub fn each_lasting(&self, now: Now) -> impl Iterator<Item = (Token, Ms)> + use<'_> {
        (self.of_owner.iter())
            .filter_map(move |share| Some((share.owner(), share.entry.end.lasts_until(now)?)))
    }

    /// Replaces one entry by another in the counts.
    fn count(&mut self, before: Option<&Entry>, after: Option<&Entry>) {
        let one = |entry: Option<&Entry>, is: fn(&Entry) -> bool| u32::from(entry.is_some_and(is));
        let counted = |count: u32, is: fn(&Entry) -> bool| {
            count.saturating_add(one(after, is)).saturating_sub(one(before, is))
        };
        self.tied = counted(self.tied, |entry| entry.tie().is_some());
        self.counted = counted(self.counted, Entry::is_counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::holds::ledger::delivery::Delivery;
    use crate::lock::holds::ledger::entry::{Number, Tally, Tied};

    const SECRET: Secret = Secret(1, 2);

    fn ends_at(end: Ms) -> Entry {
        Entry {
            number: Number::granted(end),
            slot: None,
            since: 1,
            end: End::ours(end),
            client: 5,
            tied: Tied::No,
            delivery: Delivery::TOLD,
            tally: Tally::Counted,
        }
    }

    fn shares(entries: &[(&[u8], Entry)]) -> Shares {
        let mut shares = Shares::new(SECRET.print(b"k"));
        for &(owner, entry) in entries {
            assert_eq!(shares.insert(SECRET, owner, entry), None);
        }
        shares
    }

    #[test]
    fn what_is_counted_of_them_is_true_whatever_is_done_to_one() {
        let tied = Entry { tied: Tied::Open, ..ends_at(50) };
        let mut shares = shares(&[(b"a", ends_at(40)), (b"b", tied)]);
        assert_eq!((shares.len(), shares.counted(), shares.any_tied()), (2, 2, true));
        assert_eq!(shares.insert(SECRET, b"b", ends_at(60)), Some(tied));
        assert_eq!((shares.len(), shares.counted(), shares.any_tied()), (2, 2, false));
        shares.change(SECRET, b"a", |entry| {
            (entry.tally, entry.tied) = (Tally::Uncounted, Tied::Open);
        });
        assert_eq!((shares.counted(), shares.any_tied()), (1, true));
        assert!(shares.change(SECRET, b"x", |_| ()).is_none());
        assert!(shares.remove(SECRET, b"a").is_some_and(|entry| entry.end == End::ours(40)));
        assert!(shares.remove(SECRET, b"a").is_none());
        assert_eq!((shares.len(), shares.counted(), shares.any_tied()), (1, 1, false));
    }

    #[test]
    fn once_another_client_has_touched_them_their_keys_say_when_they_end() {
        let now = Now::from_micros(45_000);
        let mut shares = shares(&[(b"a", ends_at(40)), (b"b", ends_at(50)), (b"c", ends_at(60))]);
        let set_end = |shares: &mut Shares, owner, end| {
            shares.change(SECRET, owner, |entry| entry.end = end);
        };
        let touched = |_| End::Key(None);
        assert_eq!(shares.last_end(now), Some(60));
        assert!(shares.each_lasting(now).all(|(_, end)| end > 45));
        set_end(&mut shares, b"c", End::key(Some(70)));
        assert_eq!(shares.last_end(now), Some(50), "c ends by the wall clock");
        shares.move_ends(touched);
        assert_eq!((shares.last_end(now), shares.each_lasting(now).count()), (None, 0));
        set_end(&mut shares, b"a", End::ours(80));
        assert_eq!(shares.last_end(now), Some(80), "it was renewed");
        assert!(shares.each_lasting(now).all(|(owner, _)| owner.bytes() == b"a"));
        shares.move_ends(touched);
        assert_eq!(shares.last_end(now), None, "that counts for all again");
    }
}
