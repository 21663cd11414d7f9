//! Hashes that stand for keys in the ledger, and for owners in indexes and in the log.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;
use siphasher::sip128;

/// The secret key of the hashes. Clients do not know it.
#[derive(Clone, Copy, Debug)]
pub struct Secret(pub u64, pub u64);

/// A keyed 128-bit hash. Without the secret no client can choose two keys with the same print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Print {
    // Not one u128: it would align every record with a print to 16 bytes.
    high: u64,
    low: u64,
}

impl Secret {
    pub fn print(self, bytes: &[u8]) -> Print {
        let hash = sip128::SipHasher13::new_with_keys(self.0, self.1).hash(bytes);
        Print { high: hash.h1, low: hash.h2 }
    }

    /// The 64-bit print of an owner, by a hash that is cheaper than the one for keys. It is enough: a client
    /// that found two owners with the same print would know both tokens, and could act for either anyway.
    pub fn half_print(self, bytes: &[u8]) -> u64 {
        self.for_owners().hash_one(bytes)
    }

    /// The print of an owner, for a table.
    pub fn print_of_owner(self, bytes: &[u8]) -> Print {
        let half = self.half_print(bytes);
        Print { high: half, low: half }
    }

    /// The hasher for prints of owners and for hash tables keyed by owner, seeded by the secret.
    pub fn for_owners(self) -> FixedState {
        FixedState::with_seed(self.0 ^ self.1.rotate_left(32))
    }
}

impl Print {
    /// Half of the hash, for choosing a bucket.
    pub fn bits(self) -> u64 {
        self.low
    }

    /// One of only 16 prints, for tests in which the prints of several keys are equal.
    #[cfg(test)]
    pub fn weakened(self) -> Self {
        Self { high: 0, low: self.low % 16 }
    }
}
