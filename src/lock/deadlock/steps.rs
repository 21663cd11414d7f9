//! An end to the search for deadlocks: each takes a bounded number of steps, and all of them together no more than
//! a part of the server's time, whatever clients ask for.

use crate::lock::words::{Ms, Now};

/// How many steps one search may take. On Redis 7.0.15 that is less than a millisecond of the server's time, however
/// waiters, locks and modes are mixed. What costs more than a look counts as more, by the same measurements.
const MOST_STEPS: usize = 20_000;

/// How many steps all searches may take together, in a millisecond on average: about a fifth of the
/// server's time. One search of full length is saved up; more, for clients that come together, would hold up others.
const STEPS_PER_MS: usize = 5_000;

/// What storing something costs, in steps, beside the one for looking at it.
const WRITING: usize = 4;

/// The search would be longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// What searches have left.
#[derive(Debug)]
pub struct Steps {
    most: usize,
    left: usize,
    /// When `left` was last brought up to date.
    at: Ms,
}

impl Steps {
    pub fn new() -> Self {
        Self::of(MOST_STEPS)
    }

    /// Nothing has been searched yet; one search may take `most` steps.
    pub fn of(most: usize) -> Self {
        Self { most, left: most, at: 0 }
    }

    /// A search begins now.
    pub fn begin(&mut self, now: Now) {
        let passed = now.ms().saturating_sub(self.at);
        let earned =
            usize::try_from(passed).map_or(usize::MAX, |ms| ms.saturating_mul(STEPS_PER_MS));
        self.left = self.left.saturating_add(earned).min(self.most);
        self.at = now.ms();
    }

    /// Takes one step for each thing that is looked at.
    #[inline]
    pub fn look(&mut self, things: usize) -> Result<(), TooLong> {
        let left = self.left.checked_sub(things);
        self.left = left.unwrap_or(0);
        left.map_or(Err(TooLong), |_| Ok(()))
    }

    #[inline]
    pub fn write(&mut self, things: usize) -> Result<(), TooLong> {
        self.look(things.saturating_mul(WRITING))
    }

    /// How many have been taken, and not been earned again.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.most.saturating_sub(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: Ms) -> Now {
        Now::from_micros(ms.saturating_mul(1000))
    }

    #[test]
    fn searches_that_come_one_after_another_have_no_more_than_their_part_of_the_time() {
        let mut steps = Steps::new();
        let mut all = 0_usize;
        for ms in 0..1000 {
            for _ in 0..3 {
                steps.begin(at(ms));
                let before = steps.left;
                while steps.look(7).is_ok() {}
                all = all.saturating_add(before - steps.left);
            }
        }
        let most = STEPS_PER_MS * 1000 + MOST_STEPS;
        assert!((most - 2 * STEPS_PER_MS..=most).contains(&all), "{all}");
        steps.begin(at(999));
        assert!(steps.look(1).is_err(), "it is spent");
        steps.begin(at(1000));
        assert!(steps.look(1).is_ok(), "and comes again");
    }
}
