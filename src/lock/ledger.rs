//! What the server remembers of the holds that it has granted: their fencing numbers, and whether
//! anybody has been told.
//!
//! Nothing here is needed for mutual exclusion. An entry counts only as long as the key holds its
//! owner; one whose key was overwritten behind our back is worth nothing, and is dropped when seen.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use siphasher::sip128::{Hasher128, SipHasher13};

use super::fencing::Fence;
use super::time::Ms;

/// A keyed 128-bit hash that stands for a key or an owner, so that an entry needs no memory of its
/// own. Nobody without the secret can make two names meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Print(u128);

/// The secret that prints are made with.
#[derive(Clone, Copy, Debug)]
pub struct Secret(pub u64, pub u64);

impl Secret {
    /// The print of these bytes.
    pub fn print(self, bytes: &[u8]) -> Print {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        hasher.write(bytes);
        Print(hasher.finish128().as_u128())
    }
}

/// What is remembered of a hold.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Whose hold it is.
    pub owner: Print,
    /// Its fencing number.
    pub fence: Fence,
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
#[derive(Debug, Default)]
pub struct Ledger {
    entries: HashMap<Print, Entry, BuildHasherDefault<PrintHasher>>,
}

impl Ledger {
    /// Is anything remembered of this key?
    pub fn knows(&self, key: Print) -> bool {
        self.entries.contains_key(&key)
    }

    /// The entry of this key, if it is about this owner's hold.
    pub fn of(&mut self, key: Print, owner: Print) -> Option<&mut Entry> {
        self.entries
            .get_mut(&key)
            .filter(|entry| entry.owner == owner)
    }

    /// Remembers a grant, and forgets what was remembered of the key.
    pub fn write(&mut self, key: Print, entry: Entry) {
        self.entries.insert(key, entry);
    }

    /// Forgets what is remembered of the key.
    pub fn forget(&mut self, key: Print) {
        self.entries.remove(&key);
        give_back_room(&mut self.entries);
    }

    /// Are there no entries at all?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Shrinks a map that was much larger once.
pub fn give_back_room<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    let room = map.capacity();
    if room > 1024 && map.len() < room / 8 {
        map.shrink_to(room / 4);
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
