//! Hashes that stand for keys in the ledger, and for owners in indexes and in the log.

use siphasher::sip::SipHasher13;
use siphasher::sip128;

/// The print of a group of owners, between which a FAIR limit is fair.
pub type Group = u64;

/// The group of an owner: what stands before its first `:`, or all of it.
pub fn group_of(owner: &[u8]) -> &[u8] {
    owner.split(|&byte| byte == b':').next().unwrap_or(owner)
}

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

    /// A print of 64 bits, for indexes in which the owner is compared too. It is keyed as well: a client that could
    /// choose many owners with one print would have all of them searched for each.
    pub fn half_print(self, bytes: &[u8]) -> u64 {
        SipHasher13::new_with_keys(self.0, self.1).hash(bytes)
    }

    /// The group of an owner, as a print.
    pub fn group_of(self, owner: &[u8]) -> Group {
        self.half_print(group_of(owner))
    }
}

impl Print {
    /// Half of the hash, for choosing a bucket.
    pub fn bits(self) -> u64 {
        self.low
    }
}

#[cfg(test)]
impl Print {
    /// One of only 16 prints, for tests in which the prints of several keys are equal.
    pub fn weakened(self) -> Self {
        Self { high: 0, low: self.low % 16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// foldhash multiplies by zero wherever one of its public constants stands, whatever its seed is.
    #[test]
    fn no_client_can_choose_owners_with_one_print() {
        let constant = 0xc0ac_29b7_c97c_50dd_u64.to_le_bytes();
        let owners = (0..99_u64).map(|number| [number.to_be_bytes(), constant, constant].concat());
        let prints = owners.map(|owner| Secret(1, 2).half_print(&owner));
        assert_eq!(prints.collect::<HashSet<u64>>().len(), 99);
    }
}
