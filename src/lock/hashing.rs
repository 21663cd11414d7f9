//! The hash of tables by numbers that clients do not choose.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

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
