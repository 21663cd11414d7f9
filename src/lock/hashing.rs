//! The hashes of tables: one for keys that clients choose, and one for numbers that they do not.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use siphasher::sip::SipHasher13;

use crate::lock::words::Secret;

/// The standard library's hash function, SipHash-1-3, keyed with our secret. It gets all bytes of a key
/// at once, which costs a third less than the standard library's hasher.
#[derive(Clone, Copy, Debug)]
pub struct Keyed(SipHasher13);

impl Keyed {
    pub fn new(secret: Secret) -> Self {
        Self(SipHasher13::new_with_keys(secret.0, secret.1))
    }
}

impl BuildHasher for Keyed {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher { sip: self.0, hash: 0 }
    }
}

/// The hash of one key: of some bytes, or of a number.
pub struct KeyedHasher {
    sip: SipHasher13,
    hash: u64,
}

impl Hasher for KeyedHasher {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        self.hash = self.hash.rotate_left(1) ^ self.sip.hash(bytes);
    }

    /// Ignores the length that comes before bytes: it is in their hash already.
    fn write_usize(&mut self, _: usize) {}
}

/// A hash table by numbers that clients cannot choose, such as tickets and prints: their hash needs no secret.
pub type ByNumber<T> = HashMap<u64, T, BuildHasherDefault<NumberHasher>>;

/// Spreads numbers that follow one another over all bits, by one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn a_key_has_one_hash_however_it_is_kept_and_another_one_by_another_secret() {
        let keyed = Keyed::new(Secret(1, 2));
        let kept: Rc<[u8]> = Rc::from(&b"market"[..]);
        let hash = keyed.hash_one(&b"market"[..]);
        assert_eq!(keyed.hash_one(&kept), hash);
        assert_ne!(keyed.hash_one(&b"market\0"[..]), hash);
        assert_ne!(keyed.hash_one(7_u64), keyed.hash_one(8_u64));
        assert_ne!(Keyed::new(Secret(1, 3)).hash_one(&kept), hash);
    }
}
