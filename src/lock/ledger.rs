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
use super::room::give_back_room;
use super::slot::Slot;
use super::time::Ms;

/// What is remembered of a hold.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its fencing number.
    pub fence: Fence,
    /// The key's slot, in a cluster.
    pub slot: Option<Slot>,
    /// When it was granted.
    pub since: Ms,
    /// The connection that it was granted to.
    pub client: u64,
    /// Has any answer told the owner of it?
    pub told: bool,
    /// How many granted waiters have not come to their end, whose answer may still tell the owner.
    pub answers_under_way: u32,
}

impl Entry {
    /// Has nobody heard of this grant, and will nobody any more?
    pub fn is_unheard(&self) -> bool {
        !self.told && self.answers_under_way == 0
    }
}

/// The entries of one database.
#[derive(Debug)]
pub struct Ledger {
    secret: Secret,
    entries: HashMap<Print, (Token, Entry), BuildHasherDefault<PrintHasher>>,
}

impl Ledger {
    /// Nothing is remembered yet.
    pub fn new(secret: Secret) -> Self {
        Self {
            secret,
            entries: HashMap::default(),
        }
    }

    /// Is anything remembered of this key?
    pub fn knows(&self, key: &[u8]) -> bool {
        !self.entries.is_empty() && self.entries.contains_key(&self.secret.print(key))
    }

    /// The entry of this key, if it is about this owner's hold.
    pub fn of(&mut self, key: &[u8], owner: &[u8]) -> Option<&mut Entry> {
        let (token, entry) = self.entries.get_mut(&self.secret.print(key))?;
        token.is(owner, self.secret).then_some(entry)
    }

    /// Remembers a grant, and forgets what was remembered of the key.
    pub fn write(&mut self, key: &[u8], owner: &[u8], entry: Entry) {
        let token = Token::new(owner, self.secret);
        self.entries.insert(self.secret.print(key), (token, entry));
    }

    /// Forgets what is remembered of the key.
    pub fn forget(&mut self, key: &[u8]) {
        self.entries.remove(&self.secret.print(key));
        give_back_room(&mut self.entries);
    }

    /// Forgets what is remembered of keys in these slots.
    pub fn forget_slots(&mut self, slots: &RangeInclusive<Slot>) {
        (self.entries).retain(|_, (_, entry)| entry.slot.is_none_or(|slot| !slots.contains(&slot)));
        give_back_room(&mut self.entries);
    }

    /// Forgets what is remembered of the key, unless it is about this owner's hold.
    pub fn forget_others(&mut self, key: &[u8], owner: &[u8]) {
        if self.of(key, owner).is_none() {
            self.forget(key);
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

/// A keyed 128-bit hash that stands for a key or a long owner, so that an entry needs no memory of
/// its own. Nobody without the secret can make two of them meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Print(u128);

/// Whose hold an entry is about. Most tokens are UUIDs or shorter, and cost no hash.
#[derive(Clone, Copy, Debug)]
enum Token {
    Short { len: u8, bytes: [u8; SHORT] },
    Long(Print),
}

const SHORT: usize = 36;

impl Token {
    fn new(owner: &[u8], secret: Secret) -> Self {
        let mut bytes = [0; SHORT];
        match (bytes.get_mut(..owner.len()), u8::try_from(owner.len())) {
            (Some(start), Ok(len)) => {
                start.copy_from_slice(owner);
                Self::Short { len, bytes }
            }
            _ => Self::Long(secret.print(owner)),
        }
    }

    fn is(&self, owner: &[u8], secret: Secret) -> bool {
        match self {
            Self::Short { len, bytes } => bytes.get(..usize::from(*len)) == Some(owner),
            Self::Long(print) => *print == secret.print(owner),
        }
    }
}

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
            fence,
            slot: None,
            since: 0,
            client: 0,
            told: true,
            answers_under_way: 0,
        }
    }

    #[test]
    fn an_entry_counts_only_for_its_key_and_its_owner() {
        let uuid_like = vec![b'u'; 36];
        let long = vec![b'l'; 1024];
        let mut other_long = long.clone();
        other_long[1000] = b'x';
        let owners: [&[u8]; 6] = [b"a", b"a\0", b"b", &uuid_like, &long, &other_long];
        for owner in owners {
            let mut ledger = Ledger::new(Secret(1, 2));
            ledger.write(b"k", owner, entry(7));
            for asked in owners {
                assert_eq!(ledger.of(b"k", asked).is_some(), asked == owner);
            }
            assert!(ledger.of(b"other", owner).is_none());
            ledger.forget_others(b"k", owner);
            assert!(ledger.knows(b"k"));
            ledger.forget_others(b"k", b"somebody else");
            assert!(!ledger.knows(b"k"));
        }
    }

    #[test]
    fn room_is_given_back_when_the_entries_are_gone() {
        let mut ledger = Ledger::new(Secret(1, 2));
        for number in 0_u32..100_000 {
            ledger.write(&number.to_le_bytes(), b"a", entry(1));
        }
        for number in 0_u32..100_000 {
            ledger.forget(&number.to_le_bytes());
        }
        assert!(ledger.entries.capacity() <= 2048);
    }
}
