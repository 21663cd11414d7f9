//! The wall clock, by which keys expire, beside the steady one.

use super::ledger::entry::LAST_STEP;
use super::time::{Ahead, Ms, Now, to_wall};

/// A key that goes by so much too early has gone in time: that is how far the two clocks may seem to differ
/// from one reading to the next.
pub const EARLY: Ms = 2;

/// So many steps are told apart.
const STEPS: usize = LAST_STEP as usize + 1;

/// How far the wall clock is ahead, and has been.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    ahead: Ahead,
    /// How far it has ever been.
    furthest: Ahead,
    /// How often it has been stepped.
    steps: u64,
    /// How far it was ahead after each of the last steps; of those that can't be told apart, the least.
    after_step: [Ahead; STEPS],
}

impl WallClock {
    /// How far it is ahead.
    pub fn ahead(&self) -> Ahead {
        self.ahead
    }

    /// How often it has been stepped.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// What tells keys that are written now from those that were written before a step.
    #[inline]
    pub fn step(&self) -> u8 {
        u8::try_from(self.steps & u64::from(LAST_STEP)).unwrap_or_default()
    }

    /// It has been stepped, and is so far ahead now.
    pub fn set(&mut self, ahead: Ahead) {
        self.furthest = self.furthest.max(self.ahead).max(ahead);
        self.ahead = ahead;
        self.steps = self.steps.saturating_add(1);
        let is_new = self.steps <= LAST_STEP.into();
        let step = usize::from(self.step());
        if let Some(least) = self.after_step.get_mut(step) {
            *least = if is_new { ahead } else { ahead.min(*least) };
        }
    }

    /// By how much it was further ahead once than it is now.
    pub fn set_back(&self) -> i64 {
        self.furthest.saturating_sub(self.ahead)
    }

    /// Has it passed the expiry of a key that was written after this step for a hold until `end`?
    pub fn has_passed(&self, end: Ms, step: u8, now: Now) -> bool {
        let then = self.after_step.get(usize::from(step)).copied();
        to_wall(now.plus(EARLY), self.ahead) >= to_wall(end, then.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_has_passed_by_the_clock_that_it_was_written_by() {
        let now = Now::from_micros(1_000_000_000);
        let (mut wall, end) = (WallClock::default(), now.plus(500));
        let before = wall.step();
        assert!(!wall.has_passed(end, before, now));
        wall.set(1000);
        assert!(wall.has_passed(end, before, now), "the key goes early");
        assert!(!wall.has_passed(end, wall.step(), now), "written since");
        let forward = wall.step();
        wall.set(-1000);
        for step in [before, forward, wall.step()] {
            assert!(!wall.has_passed(end, step, now));
        }
        // As many steps later nobody can tell by which of two it was written.
        for ahead in [0, 900, 2000] {
            wall.set(ahead);
        }
        assert!(wall.has_passed(end, forward, now));
    }
}
