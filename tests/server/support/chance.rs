//! What tests choose by chance, and can choose again.

/// Numbers that look like chance, and are the same for the same seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        // Odd, so never 0, from where xorshift does not come back; mixed, or seeds that stand
        // beside each other would begin alike.
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..10).for_each(|_| _ = chance.below(2));
        chance
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % limit
    }

    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[usize::try_from(self.below(N as u64)).unwrap()]
    }
}
