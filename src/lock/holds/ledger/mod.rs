//! What the server remembers of holds: their fencing tokens, when they end, and whether their owners have
//! been told.
//!
//! An entry counts only as long as the key names its owner. One whose key was overwritten by another
//! command is ignored, and is removed when a LOCK command comes across it.

mod delivery;
pub mod discarded;
pub mod entry;
pub mod held;
mod in_the_way;
mod left;
mod owner;
mod table;
mod ties;
mod u56;

pub use delivery::Delivery;
pub use entry::{End, Entry, Tally, Tied};
pub use held::{Held, Holder};
pub use ties::Tie;

use crate::lock::holds::ledger::discarded::Discarded;
use crate::lock::holds::ledger::held::Sum;
use crate::lock::holds::ledger::in_the_way::InTheWay;
use crate::lock::holds::ledger::left::LeftSlots;
use crate::lock::holds::ledger::owner::Owner;
use crate::lock::holds::ledger::table::Table;
use crate::lock::holds::ledger::ties::Ties;
use crate::lock::words::{Db, Hold, Ms, NameRef, Now, Secret, Slot, Slots, Ticket};

/// What was remembered of a hold that has ended.
#[derive(Clone, Debug)]
pub struct Former {
    pub owner: Box<[u8]>,
    pub hold: Hold,
    pub entry: Entry,
}

/// The records of one database.
#[derive(Debug)]
pub struct Ledger {
    secret: Secret,
    pub(super) locks: Table<Held>,
    sum: Sum,
    pub(super) ties: Ties,
    in_the_way: InTheWay,
    /// Slots that have left, as long as records of their locks are still to be removed.
    left: Option<Box<LeftSlots>>,
}

impl Ledger {
    pub fn new(secret: Secret) -> Self {
        Self {
            secret,
            locks: Table::default(),
            sum: Sum::default(),
            ties: Ties::default(),
            in_the_way: InTheWay::default(),
            left: None,
        }
    }

    pub fn holds(&self) -> usize {
        self.sum.holds
    }

    /// How many of them are counted as held by `INFO`.
    pub fn counted(&self) -> usize {
        self.sum.counted
    }

    /// Have slots left whose records are still to be removed?
    pub fn has_left(&self) -> bool {
        self.left.is_some()
    }

    /// Can this owner hold a lock that a client waits for? Owners of the same hash are one here.
    pub fn may_be_in_the_way(&self, owner: &[u8]) -> bool {
        self.in_the_way.may_have(owner)
    }

    /// How many connections have holds that end with them.
    pub fn sessions(&self) -> usize {
        self.ties.connections()
    }

    /// The record of this lock.
    #[inline]
    pub fn held(&self, name: NameRef<'_>) -> Option<&Held> {
        let left = self.left.as_ref();
        self.locks.get(name.print).filter(|held| !left.is_some_and(|left| left.include(held)))
    }

    /// The same, to be changed by what happens to the key.
    pub fn held_mut(&mut self, name: NameRef<'_>) -> Option<&mut Held> {
        self.drop_if_left(name);
        self.locks.get_mut(name.print)
    }

    /// What is remembered of this owner's hold.
    pub fn get(&self, name: NameRef<'_>, owner: &[u8]) -> Option<(Hold, Entry)> {
        let held = self.held(name)?;
        let entry = held.get(self.secret, owner).filter(|entry| !entry.is_seen())?;
        Some((held.hold(), *entry))
    }

    /// Replaces the entry of this owner's hold, if it has one.
    pub fn set(&mut self, name: NameRef<'_>, owner: &[u8], entry: Entry) {
        self.change(name, owner, |known| *known = entry);
    }

    /// Changes the entry of this owner's hold, if it has one, and keeps the ties and the sum true.
    fn change<T>(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let held = self.locks.get_mut(name.print)?;
        let entry = held.get_mut(self.secret, owner)?;
        let before = *entry;
        let changed = change(entry);
        let after = *entry;
        self.sum.subtract(&before);
        self.sum.add(&after);
        if before.tie() != after.tie() {
            if let Some(client) = before.tie() {
                self.ties.remove(client, name.key, owner);
            }
            if let Some(client) = after.tie() {
                self.ties.add(client, name.key, owner);
            }
        }
        Some(changed)
    }

    /// Adds the entry of a hold, and removes the key's other entries; a share leaves other owners' shares
    /// alone. Returns which holds were forgotten: also one of this owner that was still remembered.
    #[inline]
    pub fn put(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        hold: Hold,
        mut entry: Entry,
    ) -> Vec<Former> {
        self.drop_if_left(name);
        let sharers = match hold {
            Hold::Exclusive => None,
            Hold::Shared => self.locks.get_mut(name.print).filter(|held| held.hold() == hold),
        };
        let forgotten = match sharers {
            Some(held) => {
                entry.is_wanted = held.is_wanted();
                let before = held.share(self.secret, owner, entry);
                if entry.is_wanted {
                    self.in_the_way.count(Owner::from(owner).short_hash());
                }
                before.and_then(|before| self.ended(name, hold, &before)).into_iter().collect()
            }
            None => {
                let held = Held::new(hold, owner, self.secret, entry);
                match self.locks.insert(name.print, held) {
                    None => Vec::new(),
                    Some(before) => self.replaced(name, &before),
                }
            }
        };
        self.sum.add(&entry);
        if let Some(client) = entry.tie() {
            self.ties.add(client, name.key, owner);
        }
        forgotten
    }

    /// The key of a lock that others wait for says that this owner holds it so, until then. Returns the holds that were
    /// overwritten by that, if it was not remembered.
    pub fn see(
        &mut self,
        name: NameRef<'_>,
        (owner, hold): (&[u8], Hold),
        until: Option<Ms>,
        slot: Option<Slot>,
        now: Now,
    ) -> Option<Vec<Former>> {
        self.drop_if_left(name);
        if let Some(held) = self.locks.get_mut(name.print).filter(|held| held.hold() == hold)
            && let Some(entry) = held.get_mut(self.secret, owner)
        {
            if let End::Key(_) = entry.end {
                entry.end = End::key(until);
            }
            held.want(|owner| self.in_the_way.count(owner));
            return None;
        }
        let entry = Entry::foreign(until, slot, Tally::Seen, now);
        let others = self.put(name, owner, hold, entry);
        self.want(name);
        Some(others)
    }

    /// Others wait for this lock: its holders are in their way from now on. Returns its record.
    pub fn want(&mut self, name: NameRef<'_>) -> Option<&Held> {
        let held = self.locks.get_mut(name.print)?;
        held.want(|owner| self.in_the_way.count(owner));
        Some(held)
    }

    /// Notes that a request that was offered this lock has ended, and what its owner knows then. Returns whether the hold
    /// must be given back.
    pub fn offer_ended(
        &mut self,
        name: NameRef<'_>,
        owner: &[u8],
        ticket: Ticket,
        delivery: Delivery,
    ) -> bool {
        let ended = |entry: &mut Entry| {
            let was_offered = entry.delivery == Delivery::by(ticket);
            if was_offered {
                entry.delivery = delivery;
            }
            was_offered && entry.must_be_given_back()
        };
        self.change(name, owner, ended).unwrap_or(false)
    }

    /// A connection has closed: removes up to `most` of its ties. Returns how many there were, and those of
    /// holds that must be given back.
    pub fn close(&mut self, db: Db, client: u64, most: usize) -> (usize, Vec<Tie>) {
        let mut ties = self.ties.take(client, most);
        let taken = ties.len();
        ties.retain(|tie| {
            let (name, owner) = tie.name_and_owner(db, self.secret);
            let close = |entry: &mut Entry| {
                let ends = entry.tie() == Some(client);
                if ends {
                    entry.tied = Tied::Closed;
                }
                ends
            };
            self.change(name, owner, close).unwrap_or(false)
        });
        (taken, ties)
    }

    /// Removes the key's record, and returns what it says of this owner.
    #[inline]
    pub fn forget(&mut self, name: NameRef<'_>, owner: &[u8]) -> Option<Entry> {
        self.drop_if_left(name);
        let before = self.locks.remove(name.print)?;
        before.visit(|holder| self.clean_up(name, holder));
        before.get(self.secret, owner).copied().filter(|entry| !entry.is_seen())
    }

    /// Removes and returns the key's entries.
    pub fn take(&mut self, name: NameRef<'_>) -> Vec<Former> {
        self.drop_if_left(name);
        let before = self.locks.remove(name.print);
        before.map_or_else(Vec::new, |before| self.all_ended(name, &before))
    }

    /// Removes and returns the entry of this owner's hold.
    pub fn remove(&mut self, name: NameRef<'_>, owner: &[u8]) -> Option<Former> {
        self.drop_if_left(name);
        let held = self.locks.get_mut(name.print)?;
        if held.hold() == Hold::Exclusive {
            held.get(self.secret, owner)?;
            return self.take(name).pop();
        }
        let before = held.unshare(self.secret, owner)?;
        if held.is_empty() {
            self.locks.remove(name.print);
        }
        self.ended(name, Hold::Shared, &before)
    }

    /// Removes and returns these entries of the key.
    pub fn take_those(
        &mut self,
        name: NameRef<'_>,
        mut are_taken: impl FnMut(&[u8], &Entry) -> bool,
    ) -> Vec<Former> {
        let holders = self.held(name).into_iter().flat_map(Held::each);
        let taken = holders.filter_map(|holder| {
            let owner = holder.owner.bytes();
            are_taken(&owner, &holder.entry).then_some(owner)
        });
        let owners: Vec<Box<[u8]>> = taken.collect();
        (owners.iter()).filter_map(|owner| self.remove(name, owner)).collect()
    }

    /// The key is held by this owner alone. Removes and returns entries that say otherwise.
    pub fn forget_others(&mut self, name: NameRef<'_>, owner: &[u8]) -> Vec<Former> {
        let is_so = |held: &Held| held.alone().is_some() && held.get(self.secret, owner).is_some();
        if self.held(name).is_none_or(is_so) { Vec::new() } else { self.take(name) }
    }

    /// These slots have left. The entries of their keys are ignored from now on, and removed in portions by [`sweep`](Self::sweep).
    pub fn slots_left(&mut self, slots: &Slots, now: Now) {
        if !self.locks.is_empty() {
            self.left.get_or_insert_default().add(slots, now);
        }
    }

    /// Removes entries of slots that have left from the next `buckets` buckets.
    pub fn sweep(&mut self, db: Db, buckets: usize, discarded: &mut Discarded) {
        let Some(mut left) = self.left.take() else {
            return;
        };
        let mut sweep = std::mem::take(&mut left.locks);
        let (sum, in_the_way) = (&mut self.sum, &mut self.in_the_way);
        let is_through =
            self.locks.sweep(&mut sweep, buckets, &mut |held| left.include(held), &mut |held| {
                held.entries().for_each(|entry| sum.subtract(entry));
                if held.is_wanted() {
                    held.visit(|one| in_the_way.uncount(one.owner.short_hash()));
                }
                discarded.add(held.len(), held.into_pieces());
            });
        left.locks = sweep;
        let is_through = is_through && self.sweep_ties(db, &mut left, buckets);
        self.left = (!is_through).then_some(left);
    }

    /// Checks the next few ties, and removes those whose entries are gone. Returns true after the last one.
    fn sweep_ties(&mut self, db: Db, left: &mut LeftSlots, few: usize) -> bool {
        let some = self.ties.some_after(left.tie.as_ref(), few);
        for tie in &some {
            let (name, owner) = tie.name_and_owner(db, self.secret);
            let is_tied =
                |(_, entry): (Hold, Entry)| entry.tied != Tied::No && entry.client == tie.client();
            if !self.get(name, owner).is_some_and(is_tied) {
                self.ties.remove(tie.client(), name.key, owner);
            }
        }
        let is_last = some.len() < few;
        left.tie = some.into_iter().next_back();
        is_last
    }

    /// Removes the record of this lock if its slot has left.
    #[inline(always)]
    fn drop_if_left(&mut self, name: NameRef<'_>) {
        if self.left.is_some() {
            self.drop_left(name);
        }
    }

    #[cold]
    fn drop_left(&mut self, name: NameRef<'_>) {
        if let Some(left) = &self.left
            && self.locks.get(name.print).is_some_and(|held| left.include(held))
            && let Some(before) = self.locks.remove(name.print)
        {
            before.visit(|holder| self.clean_up(name, holder));
        }
    }

    /// Forgets everything; the memory is freed in portions if there is much.
    pub fn discard(self, discarded: &mut Discarded) {
        let Self { locks, sum, ties, .. } = self;
        discarded.add(
            sum.holds.max(locks.len()),
            locks.into_buckets().flat_map(|mut bucket| {
                let shared: Vec<_> =
                    bucket.extract_if(.., |(_, held)| held.hold() == Hold::Shared).collect();
                let shared = shared.into_iter().flat_map(|(_, held)| held.into_pieces()).map(drop);
                std::iter::once_with(move || drop(bucket)).chain(shared)
            }),
        );
        discarded.add(ties.all.len(), ties.all.into_iter());
    }

    /// The entry of this hold is out of its record: it is taken out of the ties and the counts too.
    #[inline(always)]
    fn clean_up(&mut self, name: NameRef<'_>, holder: &Holder) {
        let entry = &holder.entry;
        if let Some(client) = entry.tie() {
            self.ties.remove(client, name.key, &holder.owner.bytes());
        }
        if entry.is_wanted {
            self.in_the_way.uncount(holder.owner.short_hash());
        }
        self.sum.subtract(entry);
    }

    /// Cleans up, and returns what was remembered of the hold.
    fn ended(&mut self, name: NameRef<'_>, hold: Hold, holder: &Holder) -> Option<Former> {
        self.clean_up(name, holder);
        let Holder { owner, entry } = holder;
        (!entry.is_seen()).then(|| Former { owner: owner.bytes(), hold, entry: *entry })
    }

    #[cold]
    fn all_ended(&mut self, name: NameRef<'_>, before: &Held) -> Vec<Former> {
        before.each().filter_map(|holder| self.ended(name, before.hold(), holder)).collect()
    }

    /// The same of a record that another has replaced, which is of a lock that others wait for if that was.
    #[cold]
    fn replaced(&mut self, name: NameRef<'_>, before: &Held) -> Vec<Former> {
        if before.is_wanted() {
            self.want(name);
        }
        self.all_ended(name, before)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by a panic")]
mod tests;
