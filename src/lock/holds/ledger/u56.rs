//! A number in seven bytes.

use std::fmt;

/// A number below 2^56, so that a choice between several takes eight bytes. Times and fencing tokens end at 2^53.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct U56([u8; 7]);

impl U56 {
    pub const MAX: u64 = (1 << 56) - 1;

    #[inline]
    pub fn get(self) -> u64 {
        let [a, b, c, d, e, f, g] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0])
    }
}

impl From<u64> for U56 {
    /// The largest stands for all beyond it.
    #[inline]
    fn from(number: u64) -> Self {
        let [a, b, c, d, e, f, g, _] = number.min(Self::MAX).to_le_bytes();
        Self([a, b, c, d, e, f, g])
    }
}

impl fmt::Debug for U56 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_as_it_was_or_as_the_largest() {
        for number in [0, 1, 0x0123_4567_89ab_cdef, (1 << 53) - 1, U56::MAX, u64::MAX] {
            assert_eq!(U56::from(number).get(), number.min(U56::MAX));
        }
    }
}
