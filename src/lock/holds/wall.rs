//! The wall clock, by which keys expire, and its last step.

use crate::lock::holds::ledger::End;
use crate::lock::time::to_wall;
use crate::lock::words::{Ahead, Ms, Now};

/// A key that disappears up to this much too early has expired in time: the two clocks may seem to differ
/// by that much from one reading to the next.
pub const EARLY: Ms = 2;

/// So many earlier clocks are known.
const EARLIER: usize = 16;

/// How far the wall clock is ahead of the steady one, and until when its steps matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    ahead: Ahead,
    /// How far it has been ahead at most, and at least.
    furthest: Ahead,
    least: Ahead,
    /// How far it was ahead before each of the last steps, the last of them first.
    earlier: [Ahead; EARLIER],
    /// How many steps there were. A hold that is renewed before 65,536 more tells by which clock it was written.
    steps: u16,
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

    /// A hold was written into its key, until this end, which is returned: steps matter until then.
    #[inline]
    pub fn written(&mut self, end: Ms, now: Now) -> End {
        self.last_end = self.last_end.max(end);
        if !self.is_stepped(now) {
            // All keys that were written by an earlier clock have expired.
            (self.furthest, self.least) = (self.ahead, self.ahead);
        }
        End::ours(end, self.steps)
    }

    pub fn steps(&self) -> u16 {
        self.steps
    }

    /// Remembers a step, after which it is `ahead`.
    pub fn set(&mut self, ahead: Ahead) {
        self.earlier.rotate_right(1);
        if let Some(before) = self.earlier.first_mut() {
            *before = self.ahead;
        }
        self.furthest = self.furthest.max(ahead);
        self.least = self.least.min(ahead);
        self.ahead = ahead;
        self.steps = self.steps.wrapping_add(1);
        // Until then there may be keys that were written when the clock was furthest ahead.
        let set_back = self.furthest.saturating_sub(self.ahead);
        self.stepped_until = self.last_end.saturating_add_signed(set_back);
    }

    /// May the wall clock have passed the expiry that was written last for a hold that ends so? Not if that was after the
    /// last step. If it was too many steps ago, the earliest expiry counts that may have been written.
    pub fn may_have_passed(&self, end: End, now: Now) -> bool {
        let End::Ours { at, written } = end else {
            return end.is_missing();
        };
        let Some(earlier) = self.steps.wrapping_sub(written).checked_sub(1) else {
            return false;
        };
        let ahead = self.earlier.get(usize::from(earlier)).copied().unwrap_or(self.least);
        to_wall(now.plus(EARLY), self.ahead) >= to_wall(at.get(), ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_may_have_passed_by_the_clock_that_it_was_written_by_if_that_was_before_a_step() {
        let at = |ms: Ms| Now::from_micros((1_000_000 + ms) * 1000);
        let mut wall = WallClock::default();
        let passed = |wall: &WallClock, written, ms| {
            wall.may_have_passed(End::ours(at(5000).ms(), written), at(ms))
        };
        assert!(!passed(&wall, 0, 1));
        wall.set(1000);
        assert!(!passed(&wall, 0, 3990));
        assert!(passed(&wall, 0, 4000), "the key goes early");
        wall.set(3000);
        assert!(!passed(&wall, 0, 1990) && passed(&wall, 0, 2000));
        assert!(!passed(&wall, 1, 2990) && passed(&wall, 1, 3000), "renewed between the steps");
        assert!(!passed(&wall, 2, 4990), "granted or renewed since");
        wall.written(0, at(0));
        wall.set(3100);
        assert!(!passed(&wall, 2, 4890), "not by so small a step");
        wall.set(2000);
        (0..20).for_each(|_| wall.set(3000));
        assert!(
            !passed(&wall, 3, 3990) && passed(&wall, 3, 4000),
            "by the earliest that is possible"
        );
    }
}
