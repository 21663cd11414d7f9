//! The wall clock, by which keys expire, and its last step.

use crate::lock::time::to_wall;
use crate::lock::words::{Ahead, Fence, Ms, Now};

/// A key that disappears up to this much too early has expired in time: the two clocks may seem to differ
/// by that much from one reading to the next.
pub const EARLY: Ms = 2;

/// How far the wall clock is ahead of the steady one, and until when its steps matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    ahead: Ahead,
    /// How far it has been ahead at most, and at least.
    furthest: Ahead,
    least: Ahead,
    steps: u64,
    /// A fencing token of the last step: above all that were granted before it.
    last_step: Fence,
    /// The latest end of all holds that were granted or renewed here.
    last_end: Ms,
    /// Until when holds may differ from their keys, because the clock has been stepped.
    stepped_until: Ms,
}

impl WallClock {
    pub fn ahead(&self) -> Ahead {
        self.ahead
    }

    /// May there be holds from before a step?
    #[inline]
    pub fn is_stepped(&self, now: Now) -> bool {
        now.ms() <= self.stepped_until
    }

    /// Remembers when a hold ends that is granted or renewed here: steps matter until then.
    #[inline]
    pub fn note_end(&mut self, end: Ms) {
        self.last_end = self.last_end.max(end);
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Remembers a step, after which it is `ahead`. All fencing tokens granted so far are smaller than `number`.
    pub fn set(&mut self, ahead: Ahead, number: Fence) {
        self.furthest = self.furthest.max(ahead);
        self.least = self.least.min(ahead);
        self.ahead = ahead;
        self.steps = self.steps.saturating_add(1);
        self.last_step = number;
        // Until then there may be keys that were written when the clock was furthest ahead.
        let set_back = self.furthest.saturating_sub(self.ahead);
        self.stepped_until = self.last_end.saturating_add_signed(set_back);
    }

    /// Steps matter no more: all keys that were written by an earlier clock have expired. Returns whether there was one.
    #[inline]
    pub fn settle(&mut self) -> bool {
        let was_stepped = self.furthest != self.ahead || self.least != self.ahead;
        (self.furthest, self.least) = (self.ahead, self.ahead);
        was_stepped
    }

    /// May the wall clock have passed the expiry that was written last for a hold that was granted by this
    /// number, and ends at `end`? Not if that was after the last step. `written` says how far the clock was ahead
    /// then; where it is unknown, the earliest expiry counts that may have been written.
    pub fn may_have_passed(&self, fence: Fence, written: Option<Ahead>, end: Ms, now: Now) -> bool {
        let expiry = to_wall(end, written.unwrap_or(self.least));
        fence < self.last_step && to_wall(now.plus(EARLY), self.ahead) >= expiry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_may_have_passed_by_the_clock_that_it_was_written_by_if_that_was_before_a_step() {
        let at = |ms: Ms| Now::from_micros((1_000_000 + ms) * 1000);
        let mut wall = WallClock::default();
        let passed = |wall: &WallClock, ms| wall.may_have_passed(7, None, at(5000).ms(), at(ms));
        assert!(!passed(&wall, 1));
        wall.set(4000, 8);
        assert!(!passed(&wall, 990));
        assert!(passed(&wall, 1000), "the key goes early");
        wall.set(10_000, 20);
        assert!(passed(&wall, 1001));
        assert!(!wall.may_have_passed(21, None, at(5000).ms(), at(1001)), "granted since");
        let written = |ahead, ms| wall.may_have_passed(7, Some(ahead), at(5000).ms(), at(ms));
        assert!(!written(10_000, 1001), "renewed since");
        assert!(written(4000, 1001) && written(6000, 1001), "renewed between the steps");
        assert!(wall.settle() && !wall.settle());
        wall.set(-9900, 40);
        assert!(!wall.may_have_passed(31, None, at(5000).ms(), at(4000)), "not by so small a step");
        wall.set(-10_000, 30);
        assert!(!passed(&wall, 1005));
    }
}
