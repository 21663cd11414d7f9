//! What is remembered of those who share one lock.

use crate::lock::fence::Fence;
use crate::lock::ledger::Former;
use crate::lock::ledger::entry::Entry;
use crate::lock::ledger::owner::Owner;
use crate::lock::ledger::packed::Packed;
use crate::lock::ledger::print::{Print, Secret};
use crate::lock::ledger::table::{Record, Table};
use crate::lock::ledger::token::Token;
use crate::lock::request::Hold;
use crate::lock::time::{Ms, Now, is_over};
use crate::lock::wall::Written;

/// The entries of those who share one lock.
#[derive(Debug)]
pub struct Shares {
    of_key: Print,
    of_owner: Table<ShareEntry>,
    /// How many end with a connection.
    tied: u32,
    /// How many were counted as they were granted.
    counted: u32,
    /// Those with this number and smaller ones end by the wall clock: somebody else has touched the key.
    by_wall_up_to: Fence,
    /// The key has had the ends that are remembered since the wall clock had been stepped so often: how far it
    /// is ahead may be the same again.
    pub agree_after: u64,
    /// The key has gone too early, and the lock is reserved for them. It is looked at again then.
    pub reserved_until: Option<Ms>,
}

/// The entry of one.
#[derive(Debug)]
pub struct ShareEntry {
    print: Print,
    owner: Owner,
    /// The greatest number if it never ends.
    end: Ms,
    entry: Packed,
}

impl ShareEntry {
    /// Whose it is.
    pub fn owner(&self) -> Token {
        self.owner.token()
    }

    /// What is remembered of it.
    pub fn entry(&self) -> Entry {
        Entry {
            end: self.end(),
            ..self.entry.entry()
        }
    }

    /// Does it end by our clock, and has not ended?
    fn is_ours(&self, by_wall_up_to: Fence, now: Now) -> bool {
        let entry = self.entry();
        let ours = !entry.by_wall && entry.fence.unwrap_or(1) > by_wall_up_to;
        ours && !is_over(entry.end, now)
    }

    fn end(&self) -> Option<Ms> {
        (self.end != Ms::MAX).then_some(self.end)
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
    /// None yet of this key.
    pub fn new(of_key: Print) -> Self {
        Self {
            of_key,
            of_owner: Table::default(),
            tied: 0,
            counted: 0,
            by_wall_up_to: 0,
            agree_after: 0,
            reserved_until: None,
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.of_owner.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.of_owner.is_empty()
    }

    /// How many were counted as they were granted.
    pub fn counted(&self) -> usize {
        usize::try_from(self.counted).unwrap_or(usize::MAX)
    }

    /// Does any end with a connection?
    pub fn any_tied(&self) -> bool {
        self.tied > 0
    }

    /// All that is remembered.
    pub fn entries(&self) -> impl Iterator<Item = &Packed> {
        self.of_owner.iter().map(|share| &share.entry)
    }

    /// One of them.
    pub fn any(&self) -> Option<&Packed> {
        self.entries().next()
    }

    /// Each of them, with its owner.
    pub fn each(&self) -> impl Iterator<Item = &ShareEntry> {
        self.of_owner.iter()
    }

    /// All that is remembered, a few at a time.
    pub fn into_pieces(self) -> impl Iterator<Item = impl Sized> {
        self.of_owner.into_buckets()
    }

    /// What is remembered of each.
    #[cold]
    pub fn former(&self) -> Vec<Former> {
        let former = self.each().map(|share| Former {
            owner: share.owner(),
            hold: Hold::Shared,
            entry: share.entry(),
        });
        former.collect()
    }

    /// What is remembered of this owner's.
    pub fn get(&self, secret: Secret, owner: &[u8]) -> Option<Entry> {
        let share = self.of_owner.get(secret.print(owner))?;
        let mut entry = share.entry();
        entry.by_wall |= entry.fence.unwrap_or(1) <= self.by_wall_up_to;
        entry.reserved = self.reserved_until.is_some();
        Some(entry)
    }

    /// Remembers this of an owner's. Says what was remembered before.
    pub fn insert(&mut self, secret: Secret, owner: &[u8], entry: Entry) -> Option<Entry> {
        let before = self.of_owner.insert(ShareEntry {
            print: secret.print(owner),
            owner: Owner::from(owner),
            end: entry.end.unwrap_or(Ms::MAX),
            entry: Packed::from(entry.without_end_by_wall()),
        });
        let before = before.map(|share| share.entry());
        self.count(before.as_ref(), Some(&entry));
        before
    }

    /// Changes what is remembered of this owner's, if anything is.
    pub fn change<T>(
        &mut self,
        secret: Secret,
        owner: &[u8],
        change: impl FnOnce(&mut Packed) -> T,
    ) -> Option<T> {
        let share = self.of_owner.get_mut(secret.print(owner))?;
        let before = share.entry();
        let changed = change(&mut share.entry);
        let after = share.entry();
        self.count(Some(&before), Some(&after));
        Some(changed)
    }

    /// This owner's ends then: by our clock, or as the wall clock has it now.
    pub fn set_end(&mut self, secret: Secret, owner: &[u8], end: Option<Ms>, by_wall: bool) {
        if let Some(share) = self.of_owner.get_mut(secret.print(owner)) {
            share.end = end.unwrap_or(Ms::MAX);
            let entry = Entry {
                end,
                by_wall,
                ..share.entry.entry()
            };
            share.entry.set(entry.without_end_by_wall());
        }
    }

    /// Forgets an owner's.
    pub fn remove(&mut self, secret: Secret, owner: &[u8]) -> Option<Entry> {
        let share = self.of_owner.remove(secret.print(owner))?;
        let before = share.entry();
        self.count(Some(&before), None);
        Some(before)
    }

    /// Somebody else has touched the key: whoever shares it now ends by the wall clock.
    pub fn end_by_wall(&mut self, up_to: Fence) {
        self.by_wall_up_to = up_to;
    }

    /// How many have shares that last, and end by our clock; when the first of them ends, and the last.
    pub fn lasting(&self, now: Now) -> (usize, Option<(Ms, Ms)>) {
        let up_to = self.by_wall_up_to;
        let lasting = self
            .of_owner
            .iter()
            .filter(|share| share.is_ours(up_to, now));
        lasting.fold((0, None), |(count, ends), share| {
            let (first, last) = ends.unwrap_or((share.end, share.end));
            let ends = (first.min(share.end), last.max(share.end));
            (usize::saturating_add(count, 1), Some(ends))
        })
    }

    /// Has the wall clock passed what was written for each of those that last? The key goes with the last.
    pub fn have_all_passed(&self, now: Now, has_passed: &dyn Fn(Written) -> bool) -> bool {
        let up_to = self.by_wall_up_to;
        let mut lasting = (self.of_owner.iter()).filter(|share| share.is_ours(up_to, now));
        lasting.all(|share| has_passed(share.entry().written(share.end)))
    }

    /// Each whose share lasts, and ends by our clock; and when.
    pub fn each_lasting(&self, now: Now) -> impl Iterator<Item = (Token, Ms)> + use<'_> {
        let up_to = self.by_wall_up_to;
        (self.of_owner.iter())
            .filter(move |share| share.is_ours(up_to, now))
            .map(|share| (share.owner(), share.end))
    }

    fn count(&mut self, before: Option<&Entry>, after: Option<&Entry>) {
        let one = |entry: Option<&Entry>, is: fn(&Entry) -> bool| u32::from(entry.is_some_and(is));
        let counted = |count: u32, is: fn(&Entry) -> bool| {
            count
                .saturating_add(one(after, is))
                .saturating_sub(one(before, is))
        };
        self.tied = counted(self.tied, |entry| entry.tied);
        self.counted = counted(self.counted, |entry| entry.counted);
    }
}
