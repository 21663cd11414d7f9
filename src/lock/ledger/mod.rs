//! What the server remembers of the holds that it has granted: their fencing numbers, and whether
//! anybody has been told.
//!
//! Nothing here is needed for mutual exclusion. An entry counts only as long as the key holds its
//! owner; one whose key was overwritten behind our back is worth nothing, and is dropped when seen.

pub mod discarded;
pub mod entry;
pub mod packed;
pub mod print;
pub mod shares;
pub mod table;
pub mod ties;
pub mod token;
use crate::lock::ledger::entry::Entry;

use crate::lock::crowd::Survey;
use crate::lock::fence::Fence;
use crate::lock::ledger::discarded::Discarded;
use crate::lock::ledger::packed::Packed;
use crate::lock::ledger::print::{Print, Secret};
use crate::lock::ledger::shares::{Cut, Shares};
use crate::lock::ledger::table::{Record, Table};
use crate::lock::ledger::ties::{Tie, Ties};
use crate::lock::request::Hold;
use crate::lock::slot::Slots;
use crate::lock::time::{Ms, Now};

/// So many entries are looked for at once when some must have gone.
const FEW: usize = 8;

/// So many entries of locks that are no more are freed at once.
const FREED_AT_ONCE: usize = 256;

/// The entry of a hold that its owner has alone. The key and the owner stand here as prints, so that
/// it needs no memory of its own.
///
/// If the prints of two holds meet all the same, what is remembered of the one is that of the other, or
/// nothing: an owner is told another number than before. Who holds a lock stands in the key.
#[derive(Debug)]
struct Exclusive {
    key: Print,
    owner: u64,
    entry: Packed,
}

impl Record for Exclusive {
    #[inline]
    fn print(&self) -> Print {
        self.key
    }
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
    ties: Ties,
    discarded: Discarded,
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
            ties: Ties::default(),
            discarded: Discarded::default(),
            #[cfg(test)]
            weak: false,
        }
    }

    /// Is anything remembered of this key?
    pub fn knows(&self, key: &[u8]) -> bool {
        let is_in = |print| self.exclusive.get(print).is_some() || self.shared.get(print).is_some();
        !self.remembers_nothing() && is_in(self.print(key))
    }

    /// Is this owner's share of this key remembered?
    #[cfg(test)]
    pub fn knows_share(&self, key: &[u8], owner: &[u8]) -> bool {
        self.of(key, owner, Hold::Shared).is_some()
    }

    /// How many holds are remembered. A lock that is shared has several.
    pub fn holds(&self) -> usize {
        self.holds
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
                .filter(|hold| hold.owner == self.secret.half_print(owner))
                .map(|hold| hold.entry.entry()),
            Hold::Shared => self.shared.get(key)?.get(self.secret, owner),
        }
    }

    /// Changes the entry of this key, if it is about such a hold of this owner; but not by which
    /// connection it was asked for ([`tie`](Self::tie)).
    pub fn set(&mut self, key: &[u8], owner: &[u8], hold: Hold, entry: Entry) {
        let (key, secret) = (self.print(key), self.secret);
        match hold {
            Hold::Exclusive => {
                if let Some(hold) = self.exclusive.get_mut(key)
                    && hold.owner == secret.half_print(owner)
                {
                    hold.entry = entry.into();
                }
            }
            Hold::Shared => {
                if let Some(shares) = self.shared.get_mut(key) {
                    shares.set(secret, owner, entry);
                }
            }
        }
    }

    /// Remembers a grant, and forgets what was remembered of the key, other owners' shares excepted
    /// if it is one itself. Says how many other holds were forgotten.
    #[inline]
    pub fn write(&mut self, key: &[u8], owner: &[u8], hold: Hold, entry: Entry) -> usize {
        let print = self.print(key);
        let forgotten = match hold {
            Hold::Exclusive => {
                let shares = self.forget_shares(key, print);
                let before = self.exclusive.insert(Exclusive {
                    key: print,
                    owner: self.secret.half_print(owner),
                    entry: entry.into(),
                });
                shares.saturating_add(self.forgotten(key, before))
            }
            Hold::Shared => self.write_share(key, print, owner, entry),
        };
        self.holds = self.holds.saturating_add(1);
        if entry.tied {
            self.ties.add(entry.client, key, owner);
        }
        forgotten
    }

    fn write_share(&mut self, key: &[u8], print: Print, owner: &[u8], entry: Entry) -> usize {
        let before = self.exclusive.remove(print);
        let forgotten = self.forgotten(key, before);
        if self.shared.get(print).is_none() {
            self.shared.insert(Shares::new(print));
        }
        let shares = self.shared.get_mut(print);
        if let Some(before) = shares.and_then(|all| all.insert(self.secret, owner, entry)) {
            self.share_forgotten(key, owner, &before);
        }
        forgotten
    }

    /// The owner has asked for its hold again, by this connection.
    pub fn tie(&mut self, key: &[u8], owner: &[u8], hold: Hold, client: u64, tied: bool) {
        let Some(before) = self.of(key, owner, hold) else {
            return;
        };
        let after = Entry {
            client,
            tied,
            ..before
        };
        if after == before {
            return;
        }
        self.set(key, owner, hold, after);
        if before.tied {
            self.ties.remove(before.client, key, Some(owner));
        }
        if tied {
            self.ties.add(client, key, owner);
        }
    }

    /// A connection has closed: the keys and owners of the holds that end with it.
    pub fn take_ties(&mut self, client: u64) -> Vec<Tie> {
        self.ties.take(client)
    }

    /// Forgets what is remembered of the key, and says of how many holds that was.
    pub fn forget(&mut self, key: &[u8]) -> usize {
        if self.remembers_nothing() {
            return 0;
        }
        let print = self.print(key);
        match self.exclusive.remove(print) {
            None => self.forget_shares(key, print),
            before => self.forgotten(key, before),
        }
    }

    /// Forgets one share, and says whether there was one.
    pub fn forget_share(&mut self, key: &[u8], owner: &[u8]) -> bool {
        let (print, secret) = (self.print(key), self.secret);
        let Some(shares) = self.shared.get_mut(print) else {
            return false;
        };
        let Some(before) = shares.remove(secret, owner) else {
            return false;
        };
        if shares.is_void() {
            self.shared.remove(print);
        }
        self.share_forgotten(key, owner, &before);
        true
    }

    /// The lock has so many shares. If more are remembered, somebody else has taken some out of it: a
    /// few of those that are remembered are looked for, and forgotten if they are not there. As long
    /// as this is done with every new one, what is remembered grows no further than the lock.
    pub fn weed(&mut self, key: &[u8], shares: usize, is_there: &mut dyn FnMut(&[u8]) -> bool) {
        if self.count_shares(key) > shares {
            self.weed_some(key, FEW, is_there);
        }
    }

    /// The next few of those that are remembered are looked for, and forgotten if they are not there.
    pub fn weed_some(&mut self, key: &[u8], few: usize, is_there: &mut dyn FnMut(&[u8]) -> bool) {
        let Some(shares) = self.shared.get_mut(self.print(key)) else {
            return;
        };
        let few = shares.next_few(few);
        for owner in few.iter().filter(|owner| !is_there(owner.bytes())) {
            self.forget_share(key, owner.bytes());
        }
    }

    /// How many shares of this key are remembered.
    pub fn count_shares(&self, key: &[u8]) -> usize {
        self.shares(key).map_or(0, Shares::len)
    }

    /// How many shares of this key an operator is ending.
    pub fn count_breaking(&self, key: &[u8]) -> usize {
        self.shares(key).map_or(0, |shares| {
            let cuts = shares.cuts().iter().map(|cut| cut.count);
            cuts.max().unwrap_or(0).max(shares.breaking())
        })
    }

    /// Does this owner share the lock, as far as is remembered?
    pub fn has_share(&self, key: &[u8], owner: &[u8], now: Now) -> bool {
        (self.shares(key)).is_some_and(|shares| shares.include(self.secret, owner, now))
    }

    /// This owner's share ends then.
    pub fn set_end(&mut self, key: &[u8], owner: &[u8], end: Option<Ms>) {
        let (print, secret) = (self.print(key), self.secret);
        if let Some(shares) = self.shared.get_mut(print) {
            shares.set_end(secret, owner, end);
        }
    }

    /// How far it is known who shares this lock.
    pub fn survey_of(&self, key: &[u8]) -> Survey {
        (self.shares(key)).map_or(Survey::Due, Shares::survey_now)
    }

    /// The same, to be changed, if anybody is known to.
    pub fn survey(&mut self, key: &[u8]) -> Option<&mut Survey> {
        let shares = self.shared.get_mut(self.print(key))?;
        Some(shares.survey())
    }

    /// Somebody else may have changed who shares this lock.
    pub fn survey_again(&mut self, key: &[u8]) {
        let print = self.print(key);
        if let Some(shares) = self.shared.get_mut(print) {
            shares.survey_again();
        }
    }

    /// An operator ends all shares of this lock.
    pub fn cut(&mut self, key: &[u8], cut: Cut) {
        let print = self.print(key);
        if self.shared.get(print).is_none() {
            self.shared.insert(Shares::new(print));
        }
        if let Some(shares) = self.shared.get_mut(print) {
            shares.cut(cut);
        }
    }

    /// Where to go on with that, if there are any left.
    pub fn cuts_from(&self, key: &[u8]) -> Option<u64> {
        self.shares(key)?.cuts().last().map(|cut| cut.from)
    }

    /// It has been done from that place on; all of it, if it is 0.
    pub fn cut_on(&mut self, key: &[u8], from: u64) {
        let print = self.print(key);
        if let Some(shares) = self.shared.get_mut(print) {
            shares.cut_on(from);
            if shares.is_void() {
                self.shared.remove(print);
            }
        }
    }

    /// When the share with this number ends at the latest, if an operator ends it.
    pub fn last_of(&self, key: &[u8], fence: Option<Fence>) -> Option<Ms> {
        self.shares(key)?.last_of(fence)
    }

    fn shares(&self, key: &[u8]) -> Option<&Shares> {
        self.shared.get(self.print(key))
    }

    /// Of how many locks something is yet to be freed?
    pub fn discarded(&self) -> usize {
        self.discarded.len()
    }

    /// Frees some of what is not remembered any more.
    pub fn free_some(&mut self) {
        let mut freed = 0_usize;
        while freed < FREED_AT_ONCE {
            let Some((key, shares)) = self.discarded.some() else {
                return;
            };
            freed = freed.saturating_add(shares.len()).saturating_add(1);
            let key = Box::<[u8]>::from(key);
            for share in &shares {
                let (entry, owner) = (share.entry(), share.owner());
                if entry.tied && !self.is_tied(entry.client, &key, owner) {
                    self.ties.remove(entry.client, &key, Some(owner));
                }
            }
        }
    }

    fn is_tied(&self, client: u64, key: &[u8], owner: &[u8]) -> bool {
        [Hold::Exclusive, Hold::Shared].into_iter().any(|hold| {
            (self.of(key, owner, hold)).is_some_and(|entry| entry.tied && entry.client == client)
        })
    }

    /// Forgets what is remembered of keys in these slots.
    pub fn forget_slots(&mut self, slots: &Slots) {
        let stays = |entry: &Packed| entry.slot().is_none_or(|slot| !slots.contains(slot));
        self.exclusive.retain(|hold| stays(&hold.entry));
        let mut left = self.exclusive.len();
        self.shared.retain(|shares| {
            // All are of one key, and so in one slot.
            let stays = shares.entries().next().is_some_and(stays);
            left = left.saturating_add(if stays { shares.len() } else { 0 });
            stays
        });
        self.holds = left;
        self.ties.forget_slots(slots);
    }

    /// The key is held by this owner alone, or shared if there is none. Forgets what is remembered of
    /// any other hold.
    pub fn forget_others(&mut self, key: &[u8], owner: Option<&[u8]>) {
        if self.remembers_nothing() {
            return;
        }
        let print = self.print(key);
        match (self.exclusive.get(print), owner) {
            (Some(hold), Some(owner)) if hold.owner == self.secret.half_print(owner) => {}
            (Some(_), _) => _ = self.forget(key),
            (None, Some(_)) => _ = self.forget_shares(key, print),
            (None, None) => {}
        }
    }

    /// Forgets all shares of the key, and says how many those were.
    #[inline]
    fn forget_shares(&mut self, key: &[u8], print: Print) -> usize {
        if self.shared.is_empty() {
            return 0;
        }
        self.forget_known_shares(key, print)
    }

    fn forget_known_shares(&mut self, key: &[u8], print: Print) -> usize {
        let Some(shares) = self.shared.remove(print) else {
            return 0;
        };
        let forgotten = shares.len();
        self.holds = self.holds.saturating_sub(forgotten);
        if shares.are_crowd() {
            self.discarded.push(key, shares);
        } else if shares.any_tied() {
            let tied = shares
                .entries()
                .map(Packed::entry)
                .filter(|entry| entry.tied);
            tied.for_each(|entry| self.ties.remove(entry.client, key, None));
        }
        forgotten
    }

    /// What was remembered of this key's hold by one owner alone, if anything, is forgotten. Says of
    /// how many holds it was.
    #[inline]
    fn forgotten(&mut self, key: &[u8], before: Option<Exclusive>) -> usize {
        let Some(before) = before else { return 0 };
        if before.entry.is_tied() {
            self.ties.remove(before.entry.entry().client, key, None);
        }
        self.holds = self.holds.saturating_sub(1);
        1
    }

    /// What was remembered of this owner's share is forgotten.
    fn share_forgotten(&mut self, key: &[u8], owner: &[u8], before: &Entry) {
        if before.tied {
            self.ties.remove(before.client, key, Some(owner));
        }
        self.holds = self.holds.saturating_sub(1);
    }

    #[inline]
    fn remembers_nothing(&self) -> bool {
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
mod tests {
    use super::*;
    use crate::lock::fence::Fence;
    use crate::lock::slot::Slot;
    use std::collections::{BTreeMap, BTreeSet};

    fn entry(fence: Fence) -> Entry {
        Entry {
            fence: Some(fence),
            first: fence,
            slot: None,
            since: 0,
            end: None,
            client: 0,
            tied: false,
            breaking: false,
            told: true,
            replies_under_way: 0,
        }
    }

    const BOTH: [Hold; 2] = [Hold::Exclusive, Hold::Shared];

    #[test]
    fn an_entry_counts_only_for_its_key_its_owner_and_its_kind() {
        let uuid_like = vec![b'u'; 36];
        let long = vec![b'l'; 1024];
        let mut other_long = long.clone();
        other_long[1000] = b'x';
        let owners: [&[u8]; 6] = [b"a", b"a\0", b"b", &uuid_like, &long, &other_long];
        for (owner, hold) in owners
            .iter()
            .flat_map(|owner| BOTH.map(|hold| (owner, hold)))
        {
            let mut ledger = Ledger::new(Secret(1, 2));
            ledger.write(b"k", owner, hold, entry(7));
            for (asked, kind) in owners
                .iter()
                .flat_map(|owner| BOTH.map(|kind| (owner, kind)))
            {
                let right = asked == owner && kind == hold;
                assert_eq!(ledger.of(b"k", asked, kind).is_some(), right);
            }
            assert!(ledger.of(b"other", owner, hold).is_none());
            ledger.forget_others(b"k", (hold == Hold::Exclusive).then_some(owner));
            assert!(ledger.knows(b"k"));
            ledger.forget_others(b"k", Some(b"somebody else"));
            assert!(!ledger.knows(b"k"));
        }
    }

    #[test]
    fn shares_are_remembered_beside_each_other_and_forgotten_one_by_one() {
        let mut ledger = Ledger::new(Secret(1, 2));
        ledger.write(b"k", b"a", Hold::Shared, entry(1));
        ledger.write(b"k", b"b", Hold::Shared, entry(2));
        ledger.forget_share(b"k", b"a");
        assert!(ledger.of(b"k", b"a", Hold::Shared).is_none());
        assert!(ledger.of(b"k", b"b", Hold::Shared).is_some());
        ledger.write(b"k", b"c", Hold::Exclusive, entry(3));
        assert!(ledger.of(b"k", b"b", Hold::Shared).is_none());
        ledger.write(b"k", b"d", Hold::Shared, entry(4));
        assert!(ledger.of(b"k", b"c", Hold::Exclusive).is_none());
        ledger.forget_share(b"k", b"d");
        assert!(!ledger.knows(b"k"));
    }

    #[test]
    fn every_hold_is_counted() {
        let mut ledger = Ledger::new(Secret(1, 2));
        let mut counts = Vec::new();
        let deeds: [fn(&mut Ledger); 9] = [
            |ledger| _ = ledger.write(b"k", b"a", Hold::Shared, entry(1)),
            |ledger| _ = ledger.write(b"k", b"b", Hold::Shared, entry(2)),
            |ledger| _ = ledger.write(b"k", b"b", Hold::Shared, entry(3)),
            |ledger| _ = ledger.write(b"l", b"a", Hold::Exclusive, entry(4)),
            |ledger| _ = ledger.forget_share(b"k", b"x"),
            |ledger| ledger.weed(b"k", 1, &mut |owner| owner == b"a"),
            |ledger| ledger.forget_slots(&Slots::of(&[0..=16383])),
            |ledger| _ = ledger.write(b"k", b"c", Hold::Exclusive, entry(5)),
            |ledger| _ = ledger.forget(b"k"),
        ];
        for deed in deeds {
            deed(&mut ledger);
            counts.push(ledger.holds());
        }
        assert_eq!(counts, [1, 2, 2, 3, 3, 2, 2, 2, 1]);
        let in_slot = |slot| Entry {
            slot: Some(slot),
            ..entry(6)
        };
        ledger.write(b"m", b"a", Hold::Shared, in_slot(3));
        ledger.write(b"m", b"b", Hold::Shared, in_slot(3));
        ledger.forget_slots(&Slots::of(&[3..=3]));
        assert_eq!(ledger.holds(), 1);
    }

    #[test]
    fn ties_go_with_their_entries() {
        let tied = |client| Entry {
            client,
            tied: true,
            ..entry(1)
        };
        let deeds: [fn(&mut Ledger); 6] = [
            |ledger| _ = ledger.forget(b"k"),
            |ledger| _ = ledger.forget_share(b"k", b"a"),
            |ledger| ledger.forget_others(b"k", Some(b"x")),
            |ledger| _ = ledger.write(b"k", b"x", Hold::Exclusive, entry(2)),
            |ledger| _ = ledger.write(b"k", b"a", Hold::Shared, entry(2)),
            |ledger| ledger.tie(b"k", b"a", Hold::Shared, 9, false),
        ];
        for (number, deed) in deeds.into_iter().enumerate() {
            let mut ledger = Ledger::new(Secret(1, 2));
            ledger.write(b"k", b"a", Hold::Shared, tied(8));
            deed(&mut ledger);
            assert_eq!(ledger.take_ties(8), [], "deed {number}");
        }
        let mut ledger = Ledger::new(Secret(1, 2));
        ledger.write(b"k", b"a", Hold::Exclusive, tied(8));
        ledger.tie(b"k", b"a", Hold::Exclusive, 9, true);
        assert_eq!(ledger.take_ties(8), []);
        assert_eq!(ledger.take_ties(9).len(), 1);
        assert_eq!(ledger.take_ties(9), []);
    }

    /// What the ledger is: for each key whose hold or whose shares are remembered, the entry by owner.
    #[derive(Default)]
    struct Naive(BTreeMap<Print, (Hold, BTreeMap<Vec<u8>, Entry>)>);

    impl Naive {
        fn of(&self, key: Print, owner: &[u8], hold: Hold) -> Option<Entry> {
            let (kind, entries) = self.0.get(&key)?;
            (*kind == hold)
                .then(|| entries.get(owner).copied())
                .flatten()
        }

        fn holds(&self) -> usize {
            self.0.values().map(|(_, entries)| entries.len()).sum()
        }

        fn write(&mut self, key: Print, owner: &[u8], hold: Hold, entry: Entry) -> usize {
            let before = self.holds();
            let had = self.of(key, owner, hold).is_some() && hold == Hold::Shared;
            let stays = |(kind, _): &(Hold, _)| *kind == hold && hold == Hold::Shared;
            if !self.0.get(&key).is_some_and(stays) {
                self.0.insert(key, (hold, BTreeMap::new()));
            }
            let entries = self.0.get_mut(&key).map(|(_, entries)| entries);
            entries.unwrap().insert(owner.to_vec(), entry);
            before + usize::from(!had) - self.holds()
        }

        fn forget(&mut self, key: Print) -> usize {
            self.0.remove(&key).map_or(0, |(_, entries)| entries.len())
        }

        fn forget_share(&mut self, key: Print, owner: &[u8]) -> bool {
            if self.of(key, owner, Hold::Shared).is_none() {
                return false;
            }
            let entries = &mut self.0.get_mut(&key).unwrap().1;
            entries.remove(owner);
            if entries.is_empty() {
                self.0.remove(&key);
            }
            true
        }
    }

    /// Some random numbers: the same each time.
    fn random(state: &mut u64, end: u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state % end
    }

    #[test]
    fn whatever_is_done_it_is_remembered_as_a_naive_map_does_even_if_prints_meet() {
        for (weak, keys) in [(false, 40), (false, 4_000), (true, 40), (true, 4_000)] {
            let mut ledger = Ledger::new(Secret(1, 2));
            ledger.weak = weak;
            let mut naive = Naive::default();
            let mut state = 7;
            for step in 0..40_000_u64 {
                let key = random(&mut state, keys).to_le_bytes();
                let owner = random(&mut state, 5).to_string().repeat(20);
                let (owner, print) = (owner.as_bytes(), ledger.print(&key));
                let hold = BOTH[usize::from(random(&mut state, 3) == 0)];
                let mut new = entry(step);
                new.first -= u64::from(random(&mut state, 9) == 0).min(step);
                new.slot = Slot::try_from(print.bits() % 16_384).ok();
                new.tied = random(&mut state, 4) == 0;
                new.client = random(&mut state, 3);
                // It grows for a while, and then shrinks.
                let deed = if step / 10_000 % 2 == 0 { 0 } else { 30 };
                match deed + random(&mut state, 70) {
                    0..60 => {
                        let forgotten = ledger.write(&key, owner, hold, new);
                        assert_eq!(forgotten, naive.write(print, owner, hold, new));
                    }
                    60..66 => {
                        if let Some(mut old) = naive.of(print, owner, hold) {
                            old.replies_under_way = 1_000;
                            naive.write(print, owner, hold, old);
                            ledger.set(&key, owner, hold, old);
                        }
                    }
                    66..80 => {
                        let known = ledger.forget_share(&key, owner);
                        assert_eq!(known, naive.forget_share(print, owner));
                    }
                    80..99 => assert_eq!(ledger.forget(&key), naive.forget(print)),
                    _ => {
                        let slots = Slots::of(&[0..=99, 8_000..=8_099]);
                        ledger.forget_slots(&slots);
                        naive.0.retain(|_, (_, entries)| {
                            let mut slots_of = entries.values().filter_map(|entry| entry.slot);
                            !slots_of.next().is_some_and(|slot| slots.contains(slot))
                        });
                    }
                }
                assert_eq!(ledger.holds(), naive.holds());
                assert_eq!(ledger.knows(&key), naive.0.contains_key(&print));
                for hold in BOTH {
                    assert_eq!(ledger.of(&key, owner, hold), naive.of(print, owner, hold));
                }
            }
        }
    }

    #[test]
    fn ties_are_those_of_the_entries_that_are_tied() {
        let mut ledger = Ledger::new(Secret(1, 2));
        let mut naive = BTreeMap::new();
        let mut state = 11;
        for _ in 0..20_000 {
            let key = random(&mut state, 30).to_le_bytes();
            let (client, tied) = (random(&mut state, 4), random(&mut state, 2) == 0);
            let tie = tied.then_some(client);
            match random(&mut state, 4) {
                0 => {
                    let new = Entry {
                        client,
                        tied,
                        ..entry(1)
                    };
                    ledger.write(&key, b"a", Hold::Exclusive, new);
                    naive.insert(key, tie);
                }
                1 => {
                    ledger.tie(&key, b"a", Hold::Exclusive, client, tied);
                    naive.entry(key).and_modify(|before| *before = tie);
                }
                2 => {
                    ledger.forget(&key);
                    naive.remove(&key);
                }
                _ => {
                    let taken = ledger.take_ties(client);
                    let taken = taken.iter().map(|tie| tie.key_and_owner().0);
                    let own = naive.iter().filter(|(_, tie)| **tie == Some(client));
                    assert!(taken.eq(own.map(|(key, _)| &key[..])));
                    for key in naive.values_mut().filter(|tie| **tie == Some(client)) {
                        *key = None;
                    }
                    // What was taken is given back.
                    for number in 0..30_u64 {
                        let key = number.to_le_bytes();
                        let of = ledger.of(&key, b"a", Hold::Exclusive);
                        if of.is_some_and(|entry| entry.tied && entry.client == client) {
                            ledger.forget(&key);
                            naive.remove(&key);
                        }
                    }
                }
            }
            let tied: BTreeSet<_> = naive.values().flatten().collect();
            assert_eq!(ledger.sessions(), tied.len());
        }
    }

    #[test]
    fn a_hold_takes_no_more_than_its_share_of_the_budget_however_many_there_are() {
        assert_eq!(size_of::<Exclusive>(), 48);
        let mut ledger = Ledger::new(Secret(1, 2));
        for number in 0..100_000_usize {
            ledger.write(&number.to_le_bytes(), b"a", Hold::Exclusive, entry(1));
            if number > 256 && number % 97 == 0 {
                let bytes = ledger.exclusive.bytes() / number;
                assert!(bytes <= 62, "{bytes} bytes for each of {number}");
            }
        }
    }
}
