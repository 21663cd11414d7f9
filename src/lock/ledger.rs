//! What the server remembers of the holds that it has granted: their fencing numbers, and whether
//! anybody has been told.
//!
//! Nothing here is needed for mutual exclusion. An entry counts only as long as the key holds its
//! owner; one whose key was overwritten behind our back is worth nothing, and is dropped when seen.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::RangeInclusive;

use siphasher::sip128::SipHasher13;

use super::fencing::Fence;
use super::keyed::Keyed;
use super::mode::Hold;
use super::room::give_back_room;
use super::shares::Shares;
use super::slot::Slot;
use super::ties::{Tie, Ties};
use super::time::Ms;
use super::token::Token;

/// What is remembered of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its fencing number, if this server granted it.
    pub fence: Option<Fence>,
    /// The number that it had first: a hold that goes on may have come by another, with more locks.
    pub first: Fence,
    /// The key's slot, in a cluster.
    pub slot: Option<Slot>,
    /// When it was granted.
    pub since: Ms,
    /// The connection that asked for it last.
    pub client: u64,
    /// Does it end with that connection?
    pub tied: bool,
    /// Is an operator ending it? Then nothing that its owner does prolongs it.
    pub breaking: bool,
    /// Has any answer told the owner of it?
    pub told: bool,
    /// How many granted waiters have not come to their end, whose answer may still tell the owner.
    pub answers_under_way: u32,
}

impl Entry {
    /// Is this a number that the hold has or has had?
    pub fn has_had(&self, fence: Fence) -> bool {
        (self.fence).is_some_and(|last| (self.first..=last).contains(&fence))
    }

    /// Has nobody heard of this grant, and will nobody any more?
    pub fn is_unheard(&self) -> bool {
        !self.told && self.answers_under_way == 0
    }
}

/// What is remembered of a lock's holds.
#[derive(Debug)]
enum Holds {
    /// Of one owner's, that holds it alone.
    Exclusive(Token, Entry),
    /// Of those who share it.
    Shared(Shares),
}

impl Holds {
    fn count(&self) -> usize {
        match self {
            Self::Exclusive(..) => 1,
            Self::Shared(shares) => shares.len(),
        }
    }
}

/// The entries of one database.
#[derive(Debug)]
pub struct Ledger {
    secret: Secret,
    locks: HashMap<Print, Holds, BuildHasherDefault<PrintHasher>>,
    /// How many holds that are.
    holds: usize,
    ties: Ties,
}

impl Ledger {
    /// Nothing is remembered yet.
    pub fn new(secret: Secret) -> Self {
        Self {
            secret,
            locks: HashMap::default(),
            holds: 0,
            ties: Ties::default(),
        }
    }

    /// Is anything remembered of this key?
    pub fn knows(&self, key: &[u8]) -> bool {
        !self.locks.is_empty() && self.locks.contains_key(&self.secret.print(key))
    }

    /// Is this owner's share of this key remembered?
    #[cfg(test)]
    pub fn knows_share(&self, key: &[u8], owner: &[u8]) -> bool {
        let holds = self.locks.get(&self.secret.print(key));
        matches!(holds, Some(Holds::Shared(shares)) if shares.knows(owner))
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
    pub fn of(&mut self, key: &[u8], owner: &[u8], hold: Hold) -> Option<&mut Entry> {
        match (hold, self.locks.get_mut(&self.secret.print(key))?) {
            (Hold::Exclusive, Holds::Exclusive(token, entry)) => {
                (token.bytes() == owner).then_some(entry)
            }
            (Hold::Shared, Holds::Shared(shares)) => shares.get_mut(owner),
            _ => None,
        }
    }

    /// Remembers a grant, and forgets what was remembered of the key, other owners' shares excepted
    /// if it is one itself. Says how many other holds were forgotten.
    pub fn write(&mut self, key: &[u8], owner: &[u8], hold: Hold, entry: Entry) -> usize {
        let forgotten = match hold {
            Hold::Exclusive => {
                let holds = Holds::Exclusive(Token::from(owner), entry);
                let before = self.locks.insert(self.secret.print(key), holds);
                before.map_or(0, |before| {
                    self.untie(key, &before);
                    self.holds = self.holds.saturating_sub(before.count());
                    before.count()
                })
            }
            Hold::Shared => {
                let print = self.secret.print(key);
                let forgotten = match self.locks.get(&print) {
                    Some(Holds::Shared(_)) => 0,
                    _ => self.forget(key),
                };
                self.forget_share(key, owner);
                let keyed = Keyed::new(self.secret);
                let holds =
                    (self.locks.entry(print)).or_insert_with(|| Holds::Shared(Shares::new(keyed)));
                if let Holds::Shared(shares) = holds {
                    shares.insert(owner, entry);
                }
                forgotten
            }
        };
        self.holds = self.holds.saturating_add(1);
        if entry.tied {
            self.ties.add(entry.client, key, owner);
        }
        forgotten
    }

    /// The owner has asked for its hold again, by this connection.
    pub fn tie(&mut self, key: &[u8], owner: &[u8], hold: Hold, client: u64, tied: bool) {
        let Some(entry) = self.of(key, owner, hold) else {
            return;
        };
        let before = std::mem::replace(&mut entry.client, client);
        let was_tied = std::mem::replace(&mut entry.tied, tied);
        if was_tied {
            self.ties.remove(before, key, Some(owner));
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
        let holds = self.locks.remove(&self.secret.print(key));
        let forgotten = holds.map_or(0, |holds| {
            self.untie(key, &holds);
            holds.count()
        });
        self.holds = self.holds.saturating_sub(forgotten);
        give_back_room(&mut self.locks);
        forgotten
    }

    /// Forgets one share, and says whether there was one.
    pub fn forget_share(&mut self, key: &[u8], owner: &[u8]) -> bool {
        let print = self.secret.print(key);
        let Some(Holds::Shared(shares)) = self.locks.get_mut(&print) else {
            return false;
        };
        let Some(entry) = shares.remove(owner) else {
            return false;
        };
        self.holds = self.holds.saturating_sub(1);
        if shares.is_empty() {
            self.locks.remove(&print);
            give_back_room(&mut self.locks);
        }
        if entry.tied {
            self.ties.remove(entry.client, key, Some(owner));
        }
        true
    }

    /// The lock has so many shares. If more are remembered, somebody else has taken some out of it: a
    /// few of those that are remembered are looked for, and forgotten if they are not there. As long
    /// as this is done with every new one, what is remembered grows no further than the lock.
    pub fn weed(&mut self, key: &[u8], shares: usize, is_there: &mut dyn FnMut(&[u8]) -> bool) {
        let few = match self.locks.get_mut(&self.secret.print(key)) {
            Some(Holds::Shared(known)) if known.len() > shares => known.next_few(),
            _ => return,
        };
        for owner in few.iter().filter(|owner| !is_there(owner.bytes())) {
            self.forget_share(key, owner.bytes());
        }
    }

    /// Forgets what is remembered of keys in these slots.
    pub fn forget_slots(&mut self, slots: &RangeInclusive<Slot>) {
        let stays = |entry: &Entry| entry.slot.is_none_or(|slot| !slots.contains(&slot));
        let mut left = 0_usize;
        self.locks.retain(|_, holds| {
            let stays = match holds {
                Holds::Exclusive(_, entry) => stays(entry),
                Holds::Shared(shares) => shares.entries().all(stays),
            };
            left = left.saturating_add(if stays { holds.count() } else { 0 });
            stays
        });
        self.holds = left;
        give_back_room(&mut self.locks);
        self.ties.forget_slots(slots);
    }

    /// The key is held by this owner alone, or shared if there is none. Forgets what is remembered of
    /// any other hold.
    pub fn forget_others(&mut self, key: &[u8], owner: Option<&[u8]>) {
        let stays = match (self.locks.get(&self.secret.print(key)), owner) {
            (Some(Holds::Exclusive(token, _)), Some(owner)) => token.bytes() == owner,
            (Some(Holds::Shared(_)), None) | (None, _) => true,
            _ => false,
        };
        if !stays {
            self.forget(key);
        }
    }

    fn untie(&mut self, key: &[u8], holds: &Holds) {
        let tied = |entry: &&Entry| entry.tied;
        match holds {
            Holds::Exclusive(_, entry) if !entry.tied => {}
            Holds::Exclusive(_, entry) => self.ties.remove(entry.client, key, None),
            Holds::Shared(shares) => (shares.entries().filter(tied))
                .for_each(|entry| self.ties.remove(entry.client, key, None)),
        }
    }
}

/// The secret that prints are made with.
#[derive(Clone, Copy, Debug)]
pub struct Secret(pub u64, pub u64);

impl Secret {
    fn print(self, bytes: &[u8]) -> Print {
        Print(
            SipHasher13::new_with_keys(self.0, self.1)
                .hash(bytes)
                .as_u128(),
        )
    }
}

/// A keyed 128-bit hash that stands for a key, so that an entry needs no memory of its own for it.
/// Nobody without the secret can make two of them meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Print(u128);

/// Prints are as random as a hash can be: their low half is one.
#[derive(Debug, Default)]
struct PrintHasher(u64);

impl Hasher for PrintHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(low) = bytes.first_chunk() {
            self.0 = u64::from_ne_bytes(*low);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(fence: Fence) -> Entry {
        Entry {
            fence: Some(fence),
            first: fence,
            slot: None,
            since: 0,
            client: 0,
            tied: false,
            breaking: false,
            told: true,
            answers_under_way: 0,
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
            |ledger| ledger.forget_slots(&(0..=16383)),
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
        ledger.forget_slots(&(3..=3));
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

    #[test]
    fn room_is_given_back_when_the_entries_are_gone() {
        let mut ledger = Ledger::new(Secret(1, 2));
        for number in 0_u32..100_000 {
            ledger.write(&number.to_le_bytes(), b"a", Hold::Exclusive, entry(1));
        }
        for number in 0_u32..100_000 {
            ledger.forget(&number.to_le_bytes());
        }
        assert!(ledger.locks.capacity() <= 2048);
    }
}
