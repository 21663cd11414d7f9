//! What stands for a key, or for an owner, where the ledger has no room for its bytes.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use siphasher::sip128;

/// The secret that prints are made with.
#[derive(Clone, Copy, Debug)]
pub struct Secret(pub u64, pub u64);

/// A keyed 128-bit hash. Nobody without the secret can make two of them meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Print {
    // Not one u128: that would be aligned to 16 bytes, and so would every record with a print.
    high: u64,
    low: u64,
}

impl Secret {
    /// The print of a key.
    pub fn print(self, bytes: &[u8]) -> Print {
        let hash = sip128::SipHasher13::new_with_keys(self.0, self.1).hash(bytes);
        Print {
            high: hash.h1,
            low: hash.h2,
        }
    }

    /// Half a print: that of an owner, by a hash that costs less than that of a key. It is only compared with
    /// the one that is remembered of the same key. Whoever made two owners whose prints meet would know
    /// the tokens of both, and could speak for either anyway.
    pub fn half_print(self, bytes: &[u8]) -> u64 {
        self.for_owners().hash_one(bytes)
    }

    /// The same for a table of owners: by our secret, where such tables mostly have a seed of chance.
    pub fn for_owners(self) -> FixedState {
        FixedState::with_seed(self.0 ^ self.1.rotate_left(32))
    }
}

impl Print {
    /// Bits that are as random as a hash can be.
    pub fn bits(self) -> u64 {
        self.low
    }

    /// A print that meets every 16th other, for tests of what happens then.
    #[cfg(test)]
    pub fn weakened(self) -> Self {
        Self {
            high: 0,
            low: self.low % 16,
        }
    }
}
