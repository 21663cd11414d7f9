//! What the server remembers of holds: their fencing numbers, when they end, and whether their owners have
//! been told.
//!
//! An entry counts only as long as the key names its owner. One whose key was overwritten by another
//! command is ignored, and is removed when a LOCK command comes across it.

mod delivery;
pub mod discarded;
pub mod entry;
mod in_step;
mod left;
mod missing;
mod owner;
mod shares;
mod table;
mod ties;
mod token;
mod u56;

pub use delivery::Delivery;
pub use entry::{End, Entry, Number, Tally, Tied};
pub use ties::Tie;
pub use token::Token;

use crate::lock::holds::ledger::discarded::Discarded;
use crate::lock::holds::ledger::in_step::InStep;
use crate::lock::holds::ledger::left::LeftSlots;
use crate::lock::holds::ledger::owner::Owner;
use crate::lock::holds::ledger::shares::{ShareEntry, Shares};
use crate::lock::holds::ledger::table::{Record, Table};
use crate::lock::holds::ledger::ties::Ties;
use crate::lock::words::{Fence, Hold, Print, Secret, Slots, Ticket};

/// The entry of an exclusive hold. The key is stored as a print, so that most entries need no allocation.
///
/// If two keys have the same print all the same, one entry replaces the other: an owner may be told another
/// fencing number than before. Who holds a lock is not affected, because the key says that.
#[derive(Debug)]
struct Exclusive {
    key: Print,
    owner: Owner,
    entry: Entry,
}

impl Record for Exclusive {
    #[inline]
    fn print(&self) -> Print {
        self.key
    }
}

impl Exclusive {
    fn former(&self) -> Former {
        Former { owner: self.owner.token(), hold: Hold::Exclusive, entry: self.entry }
    }
}

/// What was remembered of a hold that has ended.
#[derive(Clone, Debug)]
pub struct Former {
    pub owner: Token,
    pub hold: Hold,
    pub entry: Entry,
}

/// The entries of one database.
#[derive(Debug)]
pub struct Ledger {
    secret: Secret,
    /// Locks that are held exclusively.
    exclusive: Table<Exclusive>,
    /// Locks that are shared. No lock is in both tables.
    shared: Table<Shares>,
    /// How many holds both tables have. A shared lock has several.
    holds: usize,
    /// How many of those holds were counted when they were granted.
    counted: usize,
    ties: Ties,
    /// Slots that have left, as long as entries of their locks are still to be removed.
    left: Option<Box<LeftSlots>>,
    /// Keys whose expiry was written since the wall clock was stepped.
    in_step: Table<InStep>,
    /// Are there only 16 prints, so that those of several keys are equal?
    #[cfg(test)]
    weak: bool,
}

impl Ledger {
    pub fn new(secret: Secret) -> Self {
        Self {
            secret,
            exclusive: Table::default(),
            shared: Table::default(),
            holds: 0,
            counted: 0,
            ties: Ties::default(),
            left: None,
            in_step: Table::default(),
            #[cfg(test)]
            weak: false,
        }
    }

    pub fn knows(&self, key: &[u8]) -> bool {
        if self.remembers_nothing() {
            return false;
        }
        let print = self.print(key);
        let known = self.exclusive.get(print).is_some() || self.shared.get(print).is_some();
        known && !self.key_has_left(print)
    }

    /// How many holds have an entry. A shared lock has several.
    pub fn holds(&self) -> usize {
        self.holds
    }

    pub fn counted(&self) -> usize {
        self.counted
    }

    /// How many connections have holds that end with them.
    pub fn sessions(&self) -> usize {
        self.ties.connections()
    }

    /// The entry of this owner's hold, if the owner holds the key in this way.
    pub fn of(&self, key: &[u8], owner: &[u8], hold: Hold) -> Option<Entry> {
        if self.holds == 0 {
            return None;
        }
        let key = self.print(key);
        match hold {
            Hold::Exclusive => {
                (self.exclusive.get(key)).filter(|hold| hold.owner.is(owner)).map(|hold| hold.entry)
            }
            Hold::Shared => self.shared.get(key)?.get(self.secret, owner),
        }
        .filter(|entry| !self.entry_has_left(entry))
    }

    /// Does this hold have an entry that says that its owner has been told?
    pub fn is_told(&self, key: &[u8], owner: &[u8], hold: Hold) -> bool {
        if hold == Hold::Shared || self.left.is_some() {
            return self.of(key, owner, hold).is_some_and(|entry| entry.delivery.is_told());
        }
        (self.exclusive.get(self.print(key)))
            .is_some_and(|hold| hold.owner.is(owner) && hold.entry.delivery.is_told())
    }

    /// Replaces the entry of this hold, if it has one.
    pub fn set(&mut self, key: &[u8], owner: &[u8], hold: Hold, entry: Entry) {
        self.change(key, owner, hold, |known| *known = entry);
    }

    /// Changes the entry of this hold, if it has one, and keeps the ties and the counts true.
    fn change<T>(
        &mut self,
        key: &[u8],
        owner: &[u8],
        hold: Hold,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let (print, secret) = (self.print(key), self.secret);
        let change = |entry: &mut Entry| {
            let before = (entry.tie(), entry.is_counted());
            let changed = change(entry);
            (before, changed, (entry.tie(), entry.is_counted()))
        };
        let ((before, was_counted), changed, (after, is_counted)) = match hold {
            Hold::Exclusive => (self.exclusive.get_mut(print))
                .filter(|hold| hold.owner.is(owner))
                .map(|hold| change(&mut hold.entry)),
            Hold::Shared => {
                (self.shared.get_mut(print)).and_then(|shares| shares.change(secret, owner, change))
            }
        }?;
        self.counted =
            (self.counted).saturating_add(is_counted.into()).saturating_sub(was_counted.into());
        if before != after {
            if let Some(client) = before {
                self.ties.remove(client, key, Some(owner));
            }
            if let Some(client) = after {
                self.ties.add(client, key, owner);
            }
        }
        Some(changed)
    }

    /// Adds the entry of a grant, and removes the key's other entries; a share leaves other owners' shares
    /// alone. Returns which holds were forgotten: also one of this owner that was still remembered.
    #[inline]
    pub fn write(&mut self, key: &[u8], owner: &[u8], hold: Hold, mut entry: Entry) -> Vec<Former> {
        let print = self.swept_print(key);
        if let Some(left) = &self.left {
            entry = left.as_newer(entry);
        }
        let forgotten = match hold {
            Hold::Exclusive => {
                let shares = self.remove_shares(key, print);
                let mut others = shares.map_or_else(Vec::new, |shares| shares.former());
                let before = self.exclusive.insert(Exclusive {
                    key: print,
                    owner: Owner::from(owner),
                    entry,
                });
                if let Some(before) = before {
                    others.push(self.clean_up_replaced(key, before));
                }
                others
            }
            Hold::Shared => self.write_share(key, print, owner, entry),
        };
        self.holds = self.holds.saturating_add(1);
        self.counted = self.counted.saturating_add(entry.is_counted().into());
        if let Some(client) = entry.tie() {
            self.ties.add(client, key, owner);
        }
        forgotten
    }

    fn write_share(&mut self, key: &[u8], print: Print, owner: &[u8], entry: Entry) -> Vec<Former> {
        let before = self.exclusive.remove(print);
        let mut replaced = Vec::from_iter(before.map(|before| self.clean_up_replaced(key, before)));
        if self.shared.get(print).is_none() {
            self.shared.insert(Shares::new(print));
        }
        let shares = self.shared.get_mut(print);
        if let Some(before) = shares.and_then(|all| all.insert(self.secret, owner, entry)) {
            self.clean_up_share(key, owner, &before);
            let owner = Token::from(owner);
            replaced.push(Former { owner, hold: Hold::Shared, entry: before });
        }
        replaced
    }

    /// Notes that the owner has asked for its hold again by this connection; `tied` says whether the hold now
    /// ends with it.
    pub fn tie(&mut self, key: &[u8], owner: &[u8], hold: Hold, client: u64, tied: bool) {
        self.change(key, owner, hold, |entry| {
            if (entry.client, entry.tied != Tied::No) != (client, tied) {
                (entry.client, entry.tied) = (client, Tied::by(tied));
            }
        });
    }

    /// Notes that a request that was offered this lock has ended; `heard` says whether its owner was told.
    /// Returns whether the hold must be given back.
    pub fn offer_ended(&mut self, key: &[u8], owner: &[u8], ticket: Ticket, heard: bool) -> bool {
        let ended =
            |entry: &mut Entry| entry.offer_ended(ticket, heard) && entry.must_be_given_back();
        // No lock is in both tables.
        self.change(key, owner, Hold::Exclusive, ended)
            .or_else(|| self.change(key, owner, Hold::Shared, ended))
            .unwrap_or(false)
    }

    pub fn has_ties(&self, client: u64) -> bool {
        self.ties.has(client)
    }

    /// A connection has closed: removes up to `most` of its ties. Returns how many there were, and those of
    /// holds that must be given back.
    pub fn close(&mut self, client: u64, most: usize) -> (usize, Vec<Tie>) {
        let mut ties = self.ties.take(client, most);
        let taken = ties.len();
        ties.retain(|tie| {
            let (key, owner) = tie.key_and_owner();
            let ends = |hold| self.change(key, owner, hold, |entry| entry.close(client));
            [Hold::Exclusive, Hold::Shared].map(ends).contains(&Some(true))
        });
        (taken, ties)
    }

    /// Removes the key's entries, and returns that of this owner.
    pub fn forget(&mut self, key: &[u8], owner: &[u8]) -> Option<Entry> {
        if self.remembers_nothing() {
            return None;
        }
        let (print, secret) = (self.swept_print(key), self.secret);
        if let Some(before) = self.exclusive.remove(print) {
            self.clean_up_exclusive(key, &before);
            return before.owner.is(owner).then_some(before.entry);
        }
        let mut shares = self.remove_shares(key, print)?;
        shares.remove(secret, owner)
    }

    /// Removes and returns the key's entries.
    pub fn take(&mut self, key: &[u8]) -> Vec<Former> {
        if self.remembers_nothing() {
            return Vec::new();
        }
        let print = self.swept_print(key);
        if let Some(before) = self.exclusive.remove(print) {
            return vec![self.clean_up_replaced(key, before)];
        }
        self.remove_shares(key, print).map_or_else(Vec::new, |shares| shares.former())
    }

    /// Removes and returns the entry of this owner's share.
    pub fn take_share(&mut self, key: &[u8], owner: &[u8]) -> Option<Former> {
        Some(Former {
            owner: Token::from(owner),
            hold: Hold::Shared,
            entry: self.forget_share(key, owner)?,
        })
    }

    /// Removes and returns the entry of this owner's share, without its owner.
    pub fn forget_share(&mut self, key: &[u8], owner: &[u8]) -> Option<Entry> {
        let (print, secret) = (self.swept_print(key), self.secret);
        let before = self.shared.get_mut(print)?.remove(secret, owner)?;
        self.drop_if_empty(print);
        self.clean_up_share(key, owner, &before);
        Some(before)
    }

    /// Removes and returns the entries of shares that are not in the key any more. There are some only if the
    /// ledger has more than the key, which has `shares`; `is_there` asks the key.
    pub fn take_missing_shares(
        &mut self,
        key: &[u8],
        shares: usize,
        is_there: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Vec<Former> {
        self.swept_print(key);
        if self.count_shares(key) <= shares {
            return Vec::new();
        }
        self.take_shares(key, |owner, _| !is_there(owner))
    }

    /// Removes and returns the entries of these shares.
    fn take_shares(
        &mut self,
        key: &[u8],
        mut are_taken: impl FnMut(&[u8], &Entry) -> bool,
    ) -> Vec<Former> {
        let shares = self.shares(key).into_iter().flat_map(Shares::each);
        let taken = shares.filter(|share| are_taken(share.owner().bytes(), &share.entry));
        let owners: Vec<Token> = taken.map(ShareEntry::owner).collect();
        (owners.iter()).filter_map(|owner| self.take_share(key, owner.bytes())).collect()
    }

    /// The owners whose shares of this lock have an entry.
    pub fn sharers(&self, key: &[u8]) -> Vec<Token> {
        let shares = self.shares(key).into_iter();
        let owners = shares.flat_map(|shares| shares.each().map(ShareEntry::owner));
        owners.collect()
    }

    /// These slots have left; all fencing numbers granted so far are smaller than `number`. The entries of
    /// their keys are ignored from now on, and removed in portions by [`sweep`](Self::sweep).
    pub fn slots_left(&mut self, slots: &Slots, number: Fence) {
        if self.holds > 0 {
            self.left.get_or_insert_with(|| Box::new(LeftSlots::new())).add(slots, number);
        }
    }

    /// May there be entries of slots that have left?
    pub fn has_to_sweep(&self) -> bool {
        self.left.is_some()
    }

    /// Removes entries of slots that have left from the next `buckets` buckets of each table.
    pub fn sweep(&mut self, buckets: usize, discarded: &mut Discarded) {
        let Some(mut left) = self.left.take() else {
            return;
        };
        let (mut gone, mut counted) = (0_usize, 0_usize);
        let mut exclusive = std::mem::take(&mut left.exclusive);
        let mut shared = std::mem::take(&mut left.shared);
        let mut is_through = self.exclusive.sweep(
            &mut exclusive,
            buckets,
            &mut |hold| left.includes(&hold.entry),
            &mut |hold: Exclusive| {
                gone = gone.saturating_add(1);
                counted = counted.saturating_add(hold.entry.is_counted().into());
            },
        );
        is_through &= self.shared.sweep(
            &mut shared,
            buckets,
            &mut |shares| shares.any().is_some_and(|entry| left.includes(entry)),
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

    /// Checks the next few ties, and removes those whose entries are gone. Returns true after the last one.
    fn sweep_ties(&mut self, left: &mut LeftSlots, few: usize) -> bool {
        let some = self.ties.some_after(left.tie.as_ref(), few);
        for tie in &some {
            let (key, owner) = tie.key_and_owner();
            let is_tied = |hold| {
                let entry = self.of(key, owner, hold);
                entry.is_some_and(|entry| entry.tied != Tied::No && entry.client == tie.client())
            };
            if !is_tied(Hold::Exclusive) && !is_tied(Hold::Shared) {
                self.ties.remove(tie.client(), key, Some(owner));
            }
        }
        let is_last = some.len() < few;
        left.tie = some.into_iter().next_back();
        is_last
    }

    #[inline]
    fn entry_has_left(&self, entry: &Entry) -> bool {
        (self.left.as_ref()).is_some_and(|left| left.includes(entry))
    }

    /// Does this key have entries, and has its slot left?
    fn key_has_left(&self, print: Print) -> bool {
        if self.left.is_none() {
            return false;
        }
        let exclusive = self.exclusive.get(print).map(|hold| &hold.entry);
        // All shares of a key are in the same slot.
        let shared = || self.shared.get(print).and_then(Shares::any);
        exclusive.or_else(shared).is_some_and(|entry| self.entry_has_left(entry))
    }

    /// The print of this key. If its slot has left, its entries are removed first.
    #[inline(always)]
    fn swept_print(&mut self, key: &[u8]) -> Print {
        let print = self.print(key);
        if self.left.is_some() {
            self.drop_if_left(key, print);
        }
        print
    }

    #[cold]
    fn drop_if_left(&mut self, key: &[u8], print: Print) {
        if self.key_has_left(print) {
            if let Some(before) = self.exclusive.remove(print) {
                self.clean_up_exclusive(key, &before);
            }
            self.remove_shares(key, print);
        }
    }

    /// Forgets everything; the memory is freed in portions if there is much.
    pub fn discard(self, discarded: &mut Discarded) {
        let Self { exclusive, shared, holds, ties, in_step, .. } = self;
        discarded.add(in_step.len(), in_step.into_buckets());
        discarded.add(holds, exclusive.into_buckets());
        let shares = shared.into_buckets().flatten();
        discarded.add(holds, shares.flat_map(Shares::into_pieces));
        discarded.add(ties.len(), ties.into_pieces());
    }

    /// How many shares of this key have an entry.
    pub fn count_shares(&self, key: &[u8]) -> usize {
        self.shares(key).map_or(0, Shares::len)
    }

    /// Removes the record of a shared lock that has no shares left.
    fn drop_if_empty(&mut self, print: Print) {
        if self.shared.get(print).is_some_and(Shares::is_empty) {
            self.shared.remove(print);
        }
    }

    fn shares(&self, key: &[u8]) -> Option<&Shares> {
        self.shared.get(self.print(key))
    }

    /// The key is held exclusively by this owner, or shared if `owner` is none. Removes and returns entries
    /// that say otherwise.
    pub fn forget_others(&mut self, key: &[u8], owner: Option<&[u8]>) -> Vec<Former> {
        if self.remembers_nothing() {
            return Vec::new();
        }
        match (self.exclusive.get(self.print(key)), owner) {
            (Some(hold), Some(owner)) if hold.owner.is(owner) => Vec::new(),
            (None, None) => Vec::new(),
            _ => self.take(key),
        }
    }

    /// Removes and returns the entries of all shares of the key.
    #[inline]
    fn remove_shares(&mut self, key: &[u8], print: Print) -> Option<Shares> {
        if self.shared.is_empty() {
            return None;
        }
        self.remove_known_shares(key, print)
    }

    fn remove_known_shares(&mut self, key: &[u8], print: Print) -> Option<Shares> {
        let shares = self.shared.remove(print)?;
        self.holds = self.holds.saturating_sub(shares.len());
        self.counted = self.counted.saturating_sub(shares.counted());
        if shares.any_tied() {
            for client in shares.entries().filter_map(Entry::tie) {
                self.ties.remove(client, key, None);
            }
        }
        Some(shares)
    }

    /// Removes what belongs to an exclusive hold whose record was taken out of the table: its ties and its
    /// counts.
    #[inline]
    fn clean_up_exclusive(&mut self, key: &[u8], before: &Exclusive) {
        if let Some(client) = before.entry.tie() {
            self.ties.remove(client, key, None);
        }
        self.subtract_hold(before.entry.is_counted());
    }

    /// Subtracts one hold from the counts.
    #[inline]
    fn subtract_hold(&mut self, counted: bool) {
        self.holds = self.holds.saturating_sub(1);
        self.counted = self.counted.saturating_sub(counted.into());
    }

    /// Cleans up after an exclusive hold whose record was replaced, and returns what was remembered of it.
    #[cold]
    fn clean_up_replaced(&mut self, key: &[u8], before: Exclusive) -> Former {
        self.clean_up_exclusive(key, &before);
        before.former()
    }

    /// Removes what belongs to a share whose entry was removed or replaced: its tie and its counts.
    fn clean_up_share(&mut self, key: &[u8], owner: &[u8], before: &Entry) {
        if let Some(client) = before.tie() {
            self.ties.remove(client, key, Some(owner));
        }
        self.subtract_hold(before.is_counted());
    }

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
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by a panic")]
mod tests;
