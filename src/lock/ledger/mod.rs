//! What the server remembers of the holds that it has granted: their fencing numbers, and whether
//! anybody has been told.
//!
//! Nothing here is needed for mutual exclusion. An entry counts only as long as the key holds its
//! owner; one whose key was overwritten behind our back is worth nothing, and is dropped when seen.

pub mod discarded;
pub mod entry;
pub mod left;
pub mod owner;
pub mod packed;
pub mod print;
pub mod reserved;
pub mod shares;
pub mod table;
pub mod ties;
pub mod token;
use std::collections::BTreeSet;

use crate::lock::fence::Fence;
use crate::lock::ledger::discarded::Discarded;
use crate::lock::ledger::entry::{Entry, News, ShareBefore};
use crate::lock::ledger::left::LeftSlots;
use crate::lock::ledger::owner::Owner;
use crate::lock::ledger::packed::Packed;
use crate::lock::ledger::print::{Print, Secret};
use crate::lock::ledger::shares::{ShareEntry, Shares};
use crate::lock::ledger::table::{Record, Table};
use crate::lock::ledger::ties::{Tie, Ties};
use crate::lock::ledger::token::Token;
use crate::lock::request::Hold;
use crate::lock::slot::Slots;
use crate::lock::time::Ms;

/// The entry of a hold that its owner has alone. The key stands here as a print, so that most entries need no
/// memory of their own.
///
/// If the prints of two keys meet all the same, what is remembered of the one is that of the other, or
/// nothing: an owner is told another number than before. Who holds a lock stands in the key.
#[derive(Debug)]
struct Exclusive {
    key: Print,
    owner: Owner,
    entry: Packed,
}

impl Record for Exclusive {
    #[inline]
    fn print(&self) -> Print {
        self.key
    }
}

impl Exclusive {
    fn former(&self) -> Former {
        Former {
            owner: self.owner.token(),
            hold: Hold::Exclusive,
            entry: self.entry.entry(),
        }
    }
}

/// What was remembered of a hold that is no more.
#[derive(Clone, Debug)]
pub struct Former {
    pub owner: Token,
    /// How the lock was held.
    pub hold: Hold,
    pub entry: Entry,
}

/// Of how many holds something was remembered that is forgotten now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub holds: usize,
    /// How many of them were counted as they were granted.
    pub counted: usize,
}

/// The entries of one database.
#[derive(Debug)]
pub struct Ledger {
    secret: Secret,
    /// Of the locks that one owner holds alone.
    exclusive: Table<Exclusive>,
    /// Of those that are shared. No lock is in both.
    shared: Table<Shares>,
    /// How many holds that are.
    holds: usize,
    /// How many of them were counted as they were granted.
    counted: usize,
    ties: Ties,
    /// Slots that have left, while some of their locks are still remembered.
    left: Option<Box<LeftSlots>>,
    /// The keys of locks that are reserved, and when each is looked at again.
    reserved: BTreeSet<(Ms, Box<[u8]>)>,
    /// Do the prints of keys meet?
    #[cfg(test)]
    weak: bool,
}

impl Ledger {
    /// Nothing is remembered yet.
    pub fn new(secret: Secret) -> Self {
        Self {
            secret,
            exclusive: Table::default(),
            shared: Table::default(),
            holds: 0,
            counted: 0,
            ties: Ties::default(),
            left: None,
            reserved: BTreeSet::new(),
            #[cfg(test)]
            weak: false,
        }
    }

    /// Is anything remembered of this key?
    pub fn knows(&self, key: &[u8]) -> bool {
        if self.remembers_nothing() {
            return false;
        }
        let print = self.print(key);
        let known = self.exclusive.get(print).is_some() || self.shared.get(print).is_some();
        known && !self.has_left(print)
    }

    /// How many holds are remembered. A lock that is shared has several.
    pub fn holds(&self) -> usize {
        self.holds
    }

    /// How many of them were counted as they were granted.
    pub fn counted(&self) -> usize {
        self.counted
    }

    /// How many connections there are that holds end with.
    pub fn sessions(&self) -> usize {
        self.ties.connections()
    }

    /// The entry of this key, if it is about such a hold of this owner.
    pub fn of(&self, key: &[u8], owner: &[u8], hold: Hold) -> Option<Entry> {
        if self.holds == 0 {
            return None;
        }
        let key = self.print(key);
        match hold {
            Hold::Exclusive => (self.exclusive.get(key))
                .filter(|hold| hold.owner.is(owner))
                .map(|hold| hold.entry.entry()),
            Hold::Shared => self.shared.get(key)?.get(self.secret, owner),
        }
        .filter(|entry| !self.is_left(entry))
    }

    /// Is there such an entry, and does it say that its owner has been told?
    pub fn is_told(&self, key: &[u8], owner: &[u8], hold: Hold) -> bool {
        if hold == Hold::Shared || self.left.is_some() {
            return self.of(key, owner, hold).is_some_and(|entry| entry.told);
        }
        (self.exclusive.get(self.print(key)))
            .is_some_and(|hold| hold.owner.is(owner) && hold.entry.is_told())
    }

    /// Changes the entry of this key, if it is about such a hold of this owner.
    pub fn set(&mut self, key: &[u8], owner: &[u8], hold: Hold, entry: Entry) {
        match hold {
            Hold::Exclusive => _ = self.change(key, owner, hold, |record| record.set(entry)),
            Hold::Shared => {
                let kept = entry.without_end_by_wall();
                self.change(key, owner, hold, |record| record.set(kept));
                self.set_end(key, owner, entry.end, entry.by_wall);
            }
        }
    }

    /// Changes what is remembered of this hold, if anything is, and with it which connections it ends
    /// with.
    fn change<T>(
        &mut self,
        key: &[u8],
        owner: &[u8],
        hold: Hold,
        change: impl FnOnce(&mut Packed) -> T,
    ) -> Option<T> {
        let (print, secret) = (self.print(key), self.secret);
        let change = |record: &mut Packed| {
            let before = (record.ties(), record.is_counted());
            let changed = change(record);
            (before, changed, (record.ties(), record.is_counted()))
        };
        let ((before, was_counted), changed, (after, is_counted)) = match hold {
            Hold::Exclusive => (self.exclusive.get_mut(print))
                .filter(|hold| hold.owner.is(owner))
                .map(|hold| change(&mut hold.entry)),
            Hold::Shared => {
                (self.shared.get_mut(print)).and_then(|shares| shares.change(secret, owner, change))
            }
        }?;
        self.counted = (self.counted)
            .saturating_add(is_counted.into())
            .saturating_sub(was_counted.into());
        for client in before.iter().filter(|tie| !after.contains(tie)).flatten() {
            self.ties.remove(*client, key, Some(owner));
        }
        for client in after.iter().filter(|tie| !before.contains(tie)).flatten() {
            self.ties.add(*client, key, owner);
        }
        Some(changed)
    }

    /// Remembers a grant, and forgets what was remembered of the key, other owners' shares excepted
    /// if it is one itself. Says which other holds were forgotten.
    #[inline]
    pub fn write(&mut self, key: &[u8], owner: &[u8], hold: Hold, entry: Entry) -> Vec<Former> {
        let print = self.print(key);
        self.drop_left(key, print);
        let mut entry = entry;
        if let Some(left) = &self.left {
            entry = left.after(entry);
        }
        let forgotten = match hold {
            Hold::Exclusive => {
                let mut others = Vec::new();
                self.forget_shares(key, print, |shares| others = shares.former());
                let before = self.exclusive.insert(Exclusive {
                    key: print,
                    owner: Owner::from(owner),
                    entry: entry.into(),
                });
                if let Some(before) = before {
                    others.push(self.replaced(key, before));
                }
                others
            }
            Hold::Shared => self.write_share(key, print, owner, entry),
        };
        self.holds = self.holds.saturating_add(1);
        self.counted = self.counted.saturating_add(entry.counted.into());
        if let Some(client) = entry.tie() {
            self.ties.add(client, key, owner);
        }
        forgotten
    }

    fn write_share(&mut self, key: &[u8], print: Print, owner: &[u8], entry: Entry) -> Vec<Former> {
        let before = self.exclusive.remove(print);
        let others = before.map(|before| self.replaced(key, before));
        if self.shared.get(print).is_none() {
            self.shared.insert(Shares::new(print));
        }
        let shares = self.shared.get_mut(print);
        if let Some(before) = shares.and_then(|all| all.insert(self.secret, owner, entry)) {
            self.share_forgotten(key, owner, &before);
        }
        others.into_iter().collect()
    }

    /// Remembers the grant of the lock alone to an owner that has a share of it until then, and has
    /// still to hear of the grant; and the share, unless that has to be given back itself, because
    /// nobody heard of it or because its connection is one of those that have closed.
    pub fn upgrade(
        &mut self,
        key: &[u8],
        owner: &[u8],
        entry: Entry,
        deadline: Option<Ms>,
        closed: &BTreeSet<u64>,
    ) {
        let share = self.of(key, owner, Hold::Shared);
        self.write(key, owner, Hold::Exclusive, entry);
        let ends = |share: Entry| {
            share.is_given_back() || share.tie().is_some_and(|client| closed.contains(&client))
        };
        if !share.is_some_and(ends) {
            let share = ShareBefore {
                deadline,
                entry: share,
            };
            self.change(key, owner, Hold::Exclusive, |record| {
                record.set_share_before(share);
            });
        }
    }

    /// The share that this owner has again if nobody hears that it was granted the lock alone.
    pub fn share_before(&self, key: &[u8], owner: &[u8]) -> Option<ShareBefore> {
        let hold = self.exclusive.get(self.print(key))?;
        (hold.owner.is(owner))
            .then(|| hold.entry.share_before())
            .flatten()
    }

    /// The owner has asked for its hold again, by this connection.
    pub fn tie(&mut self, key: &[u8], owner: &[u8], hold: Hold, client: u64, tied: bool) {
        self.change(key, owner, hold, |record| {
            let before = record.entry();
            if (before.client, before.tied) != (client, tied) {
                record.set(Entry {
                    client,
                    tied,
                    closed: false,
                    ..before
                });
            }
        });
    }

    /// The key has been written for this hold after this step of the wall clock.
    pub fn written(&mut self, key: &[u8], owner: &[u8], hold: Hold, step: u8) {
        self.change(key, owner, hold, |record| {
            let entry = record.entry();
            record.set(Entry { step, ..entry });
        });
    }

    /// The end of this hold has been counted, although it is still remembered.
    pub fn end_is_counted(&mut self, key: &[u8], owner: &[u8], hold: Hold) {
        self.change(key, owner, hold, |record| {
            let entry = record.entry();
            record.set(Entry {
                counted: false,
                ..entry
            });
        });
    }

    /// A waiter that was granted this lock by this number has come to its end. Does the hold have to be
    /// given back?
    pub fn reply_ended(&mut self, key: &[u8], owner: &[u8], fence: Fence, heard: bool) -> bool {
        let ended = |record: &mut Packed| {
            record.reply_ended(fence, heard) && record.entry().is_given_back()
        };
        // No lock is in both tables.
        self.change(key, owner, Hold::Exclusive, ended)
            .or_else(|| self.change(key, owner, Hold::Shared, ended))
            .unwrap_or(false)
    }

    /// One reply more may tell the owner of the hold that it has by this number. How does it hold it?
    pub fn hear_of(&mut self, key: &[u8], owner: &[u8], fence: Fence) -> Option<Hold> {
        let hear = |record: &mut Packed| {
            let mut entry = record.entry();
            let is_it = entry.has_had(fence);
            if is_it {
                entry.hear(News::UnderWay);
                record.set(entry);
            }
            is_it
        };
        let mut both = [Hold::Exclusive, Hold::Shared].into_iter();
        both.find(|&hold| self.change(key, owner, hold, hear) == Some(true))
    }

    /// Does anything end with this connection?
    pub fn has_ties(&self, client: u64) -> bool {
        self.ties.has(client)
    }

    /// A connection has closed: sees to so many of its ties at most. How many those were; and the keys
    /// and owners of the holds that have to be given back.
    pub fn close(&mut self, client: u64, most: usize) -> (usize, Vec<Tie>) {
        let mut ties = self.ties.take(client, most);
        let taken = ties.len();
        ties.retain(|tie| {
            let (key, owner) = tie.key_and_owner();
            let ends = |hold| self.change(key, owner, hold, |record| record.close(client));
            [Hold::Exclusive, Hold::Shared]
                .map(ends)
                .contains(&Some(true))
        });
        (taken, ties)
    }

    /// Forgets what is remembered of the key, and says of how many holds that was.
    pub fn forget(&mut self, key: &[u8]) -> Forgotten {
        if self.remembers_nothing() {
            return Forgotten::default();
        }
        let print = self.print(key);
        self.drop_left(key, print);
        match self.exclusive.remove(print) {
            None => self.forget_shares(key, print, |_| ()),
            Some(before) if !before.entry.has_ties() && self.reserved.is_empty() => {
                self.is_forgotten(before.entry.is_counted())
            }
            before => self.forgotten(key, before),
        }
    }

    /// Forgets what is remembered of the key, and says what that was.
    pub fn take(&mut self, key: &[u8]) -> Vec<Former> {
        if self.remembers_nothing() {
            return Vec::new();
        }
        let print = self.print(key);
        self.drop_left(key, print);
        if let Some(before) = self.exclusive.remove(print) {
            return vec![self.replaced(key, before)];
        }
        let mut former = Vec::new();
        self.forget_shares(key, print, |shares| former = shares.former());
        former
    }

    /// Forgets this owner's share, and says what was remembered of it.
    pub fn take_share(&mut self, key: &[u8], owner: &[u8]) -> Option<Former> {
        let entry = self.of(key, owner, Hold::Shared)?;
        self.forget_share(key, owner);
        Some(Former {
            owner: Token::from(owner),
            hold: Hold::Shared,
            entry,
        })
    }

    /// Forgets one share, and says whether there was one.
    pub fn forget_share(&mut self, key: &[u8], owner: &[u8]) -> Forgotten {
        let (print, secret) = (self.print(key), self.secret);
        self.drop_left(key, print);
        let Some(shares) = self.shared.get_mut(print) else {
            return Forgotten::default();
        };
        let Some(before) = shares.remove(secret, owner) else {
            return Forgotten::default();
        };
        self.drop_if_empty(key, print);
        self.share_forgotten(key, owner, &before)
    }

    /// The lock has so many shares. If more are remembered, somebody else has taken some out of it: they are
    /// forgotten. Says which those are.
    pub fn weed(
        &mut self,
        key: &[u8],
        shares: usize,
        is_there: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Vec<Former> {
        let print = self.print(key);
        self.drop_left(key, print);
        if self.count_shares(key) <= shares {
            return Vec::new();
        }
        let mut gone = self.sharers(key);
        gone.retain(|owner| !is_there(owner.bytes()));
        (gone.iter())
            .filter_map(|owner| self.take_share(key, owner.bytes()))
            .collect()
    }

    /// Those who share this lock, as far as is remembered.
    pub fn sharers(&self, key: &[u8]) -> Vec<Token> {
        let shares = self.shares(key).into_iter();
        let owners = shares.flat_map(|shares| shares.each().map(ShareEntry::owner));
        owners.collect()
    }

    /// These slots have left. Numbers that were given before are smaller than this one. What is
    /// remembered of their keys counts no more, and is forgotten in portions.
    pub fn slots_left(&mut self, slots: &Slots, number: Fence) {
        if self.holds > 0 {
            let before = self.left.take().map_or_else(LeftSlots::new, |left| *left);
            self.left = Some(Box::new(before.and(slots, number)));
        }
    }

    /// Is anything remembered of keys in slots that have left?
    pub fn has_to_sweep(&self) -> bool {
        self.left.is_some()
    }

    /// Forgets some of what is remembered of keys in slots that have left: what stands in so many
    /// buckets.
    pub fn sweep(&mut self, buckets: usize, discarded: &mut Discarded) {
        let Some(mut left) = self.left.take() else {
            return;
        };
        let goes = |left: &LeftSlots, entry: &Packed| left.includes(&entry.entry());
        let (mut gone, mut counted) = (0_usize, 0_usize);
        let (mut exclusive, mut shared) = Default::default();
        std::mem::swap(&mut exclusive, &mut left.exclusive);
        std::mem::swap(&mut shared, &mut left.shared);
        let mut is_through = self.exclusive.sweep(
            &mut exclusive,
            buckets,
            &mut |hold| goes(&left, &hold.entry),
            &mut |hold: Exclusive| {
                gone = gone.saturating_add(1);
                counted = counted.saturating_add(hold.entry.is_counted().into());
            },
        );
        is_through &= self.shared.sweep(
            &mut shared,
            buckets,
            &mut |shares| shares.any().is_some_and(|entry| goes(&left, entry)),
            &mut |shares| {
                gone = gone.saturating_add(shares.len());
                counted = counted.saturating_add(shares.counted());
                discarded.add(shares.len(), shares.into_pieces());
            },
        );
        (left.exclusive, left.shared) = (exclusive, shared);
        self.holds = self.holds.saturating_sub(gone);
        self.counted = self.counted.saturating_sub(counted);
        if is_through {
            is_through = self.sweep_ties(&mut left, buckets);
        }
        self.left = (!is_through).then_some(left);
    }

    /// Ties whose entries have gone go too. Are all swept?
    fn sweep_ties(&mut self, left: &mut LeftSlots, few: usize) -> bool {
        let some = self.ties.some_after(left.tie.as_ref(), few);
        for tie in &some {
            let (key, owner) = tie.key_and_owner();
            let is_tied = |hold| {
                let entry = self.of(key, owner, hold);
                entry.is_some_and(|entry| entry.tied && entry.client == tie.client())
            };
            // The share that an upgrade goes back to if nobody hears of it.
            let before = self.share_before(key, owner).and_then(|share| share.entry);
            let is_before = before.is_some_and(|share| share.tie() == Some(tie.client()));
            if !is_tied(Hold::Exclusive) && !is_tied(Hold::Shared) && !is_before {
                self.ties.remove(tie.client(), key, Some(owner));
            }
        }
        let is_last = some.len() < few;
        left.tie = some.into_iter().next_back();
        is_last
    }

    /// Is this about a hold in a slot that has left?
    #[inline]
    fn is_left(&self, entry: &Entry) -> bool {
        (self.left.as_ref()).is_some_and(|left| left.includes(entry))
    }

    /// Is what is remembered of this key about a hold in a slot that has left?
    fn has_left(&self, print: Print) -> bool {
        if self.left.is_none() {
            return false;
        }
        let exclusive = self.exclusive.get(print).map(|hold| &hold.entry);
        // All shares are of one key, and so of one slot.
        let shared = || self.shared.get(print).and_then(Shares::any);
        let entry = exclusive.or_else(shared).map(Packed::entry);
        entry.is_some_and(|entry| self.is_left(&entry))
    }

    /// Forgets what is remembered of this key if it is about a hold in a slot that has left.
    #[inline(always)]
    fn drop_left(&mut self, key: &[u8], print: Print) {
        if self.left.is_some() {
            self.drop_if_left(key, print);
        }
    }

    #[cold]
    fn drop_if_left(&mut self, key: &[u8], print: Print) {
        if self.has_left(print) {
            let before = self.exclusive.remove(print);
            self.forgotten(key, before);
            self.forget_shares(key, print, |_| ());
        }
    }

    /// Forgets everything; a little in each turn, if there is much.
    pub fn discard(self, discarded: &mut Discarded) {
        let Self {
            exclusive,
            shared,
            holds,
            ties,
            reserved,
            ..
        } = self;
        discarded.add(reserved.len(), reserved.into_iter());
        discarded.add(holds, exclusive.into_buckets());
        let shares = shared.into_buckets().flatten();
        discarded.add(holds, shares.flat_map(Shares::into_pieces));
        discarded.add(ties.len(), ties.into_pieces());
    }

    /// How many shares of this key are remembered.
    pub fn count_shares(&self, key: &[u8]) -> usize {
        self.shares(key).map_or(0, Shares::len)
    }

    /// This owner's share ends then: by our clock, or as the wall clock has it now.
    pub fn set_end(&mut self, key: &[u8], owner: &[u8], end: Option<Ms>, by_wall: bool) {
        let (print, secret) = (self.print(key), self.secret);
        if let Some(shares) = self.shared.get_mut(print) {
            shares.set_end(secret, owner, end, by_wall);
        }
    }

    /// Nobody shares this lock any more.
    fn drop_if_empty(&mut self, key: &[u8], print: Print) {
        if self.shared.get(print).is_some_and(Shares::is_empty)
            && let Some(shares) = self.shared.remove(print)
            && let Some(until) = shares.reserved_until
        {
            self.reserved.remove(&(until, Box::from(key)));
        }
    }

    fn shares(&self, key: &[u8]) -> Option<&Shares> {
        self.shared.get(self.print(key))
    }

    /// The key is held by this owner alone, or shared if there is none. Forgets what is remembered of
    /// any other hold, and says what that was.
    pub fn forget_others(&mut self, key: &[u8], owner: Option<&[u8]>) -> Vec<Former> {
        if self.remembers_nothing() {
            return Vec::new();
        }
        let (print, mut former) = (self.print(key), Vec::new());
        match (self.exclusive.get(print), owner) {
            (Some(hold), Some(owner)) if hold.owner.is(owner) => {}
            (Some(hold), _) => {
                former.push(hold.former());
                self.forget(key);
            }
            (None, Some(_)) => {
                self.forget_shares(key, print, |shares| former = shares.former());
            }
            (None, None) => {}
        }
        former.retain(|former| !self.is_left(&former.entry));
        former
    }

    /// Forgets all shares of the key, and says how many those were.
    #[inline]
    fn forget_shares(&mut self, key: &[u8], print: Print, see: impl FnOnce(&Shares)) -> Forgotten {
        if self.shared.is_empty() {
            return Forgotten::default();
        }
        self.forget_known_shares(key, print, see)
    }

    fn forget_known_shares(
        &mut self,
        key: &[u8],
        print: Print,
        see: impl FnOnce(&Shares),
    ) -> Forgotten {
        let Some(shares) = self.shared.remove(print) else {
            return Forgotten::default();
        };
        if let Some(until) = shares.reserved_until {
            self.reserved.remove(&(until, Box::from(key)));
        }
        see(&shares);
        let forgotten = Forgotten {
            holds: shares.len(),
            counted: shares.counted(),
        };
        self.holds = self.holds.saturating_sub(forgotten.holds);
        self.counted = self.counted.saturating_sub(forgotten.counted);
        if shares.any_tied() {
            for client in shares.entries().flat_map(Packed::ties).flatten() {
                self.ties.remove(client, key, None);
            }
        }
        forgotten
    }

    /// What was remembered of this key's hold by one owner alone, if anything, is forgotten. Says of
    /// how many holds it was.
    #[inline]
    fn forgotten(&mut self, key: &[u8], before: Option<Exclusive>) -> Forgotten {
        let Some(before) = before else {
            return Forgotten::default();
        };
        if !self.reserved.is_empty()
            && let Entry {
                reserved: true,
                end: Some(end),
                ..
            } = before.entry.entry()
        {
            self.reserved.remove(&(end, Box::from(key)));
        }
        if before.entry.has_ties() {
            for client in before.entry.ties().into_iter().flatten() {
                self.ties.remove(client, key, None);
            }
        }
        self.is_forgotten(before.entry.is_counted())
    }

    /// One hold less.
    #[inline]
    fn is_forgotten(&mut self, counted: bool) -> Forgotten {
        self.holds = self.holds.saturating_sub(1);
        self.counted = self.counted.saturating_sub(counted.into());
        Forgotten {
            holds: 1,
            counted: counted.into(),
        }
    }

    /// The same, and says what it was.
    #[cold]
    fn replaced(&mut self, key: &[u8], before: Exclusive) -> Former {
        let former = before.former();
        self.forgotten(key, Some(before));
        former
    }

    /// What was remembered of this owner's share is forgotten.
    fn share_forgotten(&mut self, key: &[u8], owner: &[u8], before: &Entry) -> Forgotten {
        if let Some(client) = before.tie() {
            self.ties.remove(client, key, Some(owner));
        }
        self.is_forgotten(before.counted)
    }

    /// Is nothing remembered of any key?
    #[inline]
    pub fn remembers_nothing(&self) -> bool {
        self.holds == 0 && self.shared.is_empty()
    }

    fn print(&self, key: &[u8]) -> Print {
        let print = self.secret.print(key);
        #[cfg(test)]
        if self.weak {
            return print.weakened();
        }
        print
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
#[allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by a panic"
)]
mod tests;
