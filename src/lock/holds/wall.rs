//! The wall clock, by which keys expire, and its last steps.

use super::ledger::entry::LAST_STEP;
use crate::lock::time::to_wall;
use crate::lock::words::{Ahead, Ms, Now};

/// A key that disappears up to this much too early has expired in time: the two clocks may seem to differ
/// by that much from one reading to the next.
pub const EARLY: Ms = 2;

/// How many steps are told apart.
const STEPS: usize = LAST_STEP as usize + 1;

/// How far the wall clock is ahead of the steady one, now and after its last steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock {
    ahead: Ahead,
    /// How far it has been ahead at most.
    furthest: Ahead,
    /// How often it has been stepped.
    steps: u64,
    /// The latest end of all holds that were granted or renewed here.
    last_end: Ms,
    /// Until when holds may differ from their keys, because the clock has been stepped.
    stepped_until: Ms,
    /// The last steps, each at the number that [`WallClock::step`] returned after it.
    last: [Step; STEPS],
}

/// A step of the wall clock.
#[derive(Clone, Copy, Debug, Default)]
struct Step {
    /// When it was stepped.
    at: Ms,
    /// Until when keys were written after an earlier step that is not told from it.
    earlier_until: Ms,
    /// How far it was ahead from then on.
    ahead: Ahead,
    /// The least that it was ahead after this step and all earlier ones with the same number.
    least: Ahead,
}

/// What is known of the expiry that was written for a hold.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// The end of the hold.
    pub end: Ms,
    /// The number of the step of the wall clock after which it was written.
    pub step: u8,
    /// When the hold was granted.
    pub since: Ms,
}

impl WallClock {
    /// Returns how far it is ahead.
    pub fn ahead(&self) -> Ahead {
        self.ahead
    }

    /// May there be holds from before a step?
    #[inline]
    pub fn is_stepped(&self, now: Now) -> bool {
        now.ms() <= self.stepped_until
    }

    /// Has it been stepped since the module was loaded?
    #[inline]
    pub fn was_ever_stepped(&self) -> bool {
        self.steps > 0
    }

    /// Remembers when a hold ends that is granted or renewed here: steps matter until then.
    #[inline]
    pub fn note_end(&mut self, end: Ms) {
        self.last_end = self.last_end.max(end);
    }

    /// Returns how often it has been stepped.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the number of the last step, which is remembered with each key that is written. It takes two
    /// bits, so the numbers repeat.
    #[inline]
    pub fn step(&self) -> u8 {
        u8::try_from(self.steps & u64::from(LAST_STEP)).unwrap_or_default()
    }

    /// Remembers a step, after which it is `ahead`.
    pub fn set(&mut self, ahead: Ahead, now: Now) {
        self.furthest = self.furthest.max(self.ahead).max(ahead);
        self.ahead = ahead;
        self.steps = self.steps.saturating_add(1);
        let is_first = self.steps <= LAST_STEP.into();
        let step = usize::from(self.step());
        let next = self.last.get(step.saturating_add(1) % STEPS);
        let earlier_until = next.map_or(0, |next| next.at);
        if let Some(last) = self.last.get_mut(step) {
            *last = Step {
                at: now.ms(),
                earlier_until,
                ahead,
                least: if is_first { ahead } else { ahead.min(last.least) },
            };
        }
        // Until then there may be keys that were written when the clock was furthest ahead.
        let set_back = self.furthest.saturating_sub(self.ahead);
        self.stepped_until = self.last_end.saturating_add_signed(set_back);
    }

    /// Has the wall clock passed the expiry that was written? If a hold has outlasted so many steps that its
    /// own can't be told from another one, the earliest possible expiry counts.
    pub fn has_passed(&self, written: Written, now: Now) -> bool {
        let last = self.last.get(usize::from(written.step)).copied();
        let last = last.unwrap_or_default();
        let then = if written.since > last.earlier_until { last.ahead } else { last.least };
        to_wall(now.plus(EARLY), self.ahead) >= to_wall(written.end, then)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_has_passed_by_the_clock_that_it_was_written_by() {
        let at = |ms: Ms| Now::from_micros((1_000_000 + ms) * 1000);
        let (mut wall, since) = (WallClock::default(), at(0).ms());
        let written = |step| Written { end: at(5000).ms(), step, since };
        let before = wall.step();
        assert!(!wall.has_passed(written(before), at(1)));
        wall.set(10_000, at(2));
        assert!(wall.has_passed(written(before), at(3)), "the key goes early");
        let forward = wall.step();
        assert!(!wall.has_passed(written(forward), at(3)), "written since");
        wall.set(-10_000, at(4));
        for step in [before, forward, wall.step()] {
            assert!(!wall.has_passed(written(step), at(5)));
        }
        // Four steps later a number stands for two steps: an old hold may have been written after either, a
        // new one only after the last.
        for (ms, ahead) in [(6, 0), (7, 9000), (8, 30_000)] {
            wall.set(ahead, at(ms));
        }
        assert_eq!(wall.step(), forward);
        assert!(wall.has_passed(written(forward), at(9)));
        let new = Written { since: at(9).ms(), ..written(forward) };
        assert!(!wall.has_passed(new, at(10)));
    }

    #[test]
    fn a_hold_from_before_the_last_step_is_known_to_have_been_written_since_it() {
        let at = |ms: Ms| Now::from_micros((1_000_000 + ms) * 1000);
        let mut wall = WallClock::default();
        for step in 1..20 {
            let granted = at(10 * step - 1).ms();
            wall.set(20_000 * i64::try_from(step).unwrap(), at(10 * step));
            let renewed = Written { end: at(5000).ms(), step: wall.step(), since: granted };
            assert!(!wall.has_passed(renewed, at(10 * step + 1)), "step {step}");
        }
    }

    #[test]
    fn of_a_hold_that_was_granted_in_the_moment_of_a_step_the_earliest_expiry_counts() {
        let at = |ms: Ms| Now::from_micros((1_000_000 + ms) * 1000);
        let mut wall = WallClock::default();
        let granted = Written { end: at(5000).ms(), step: wall.step(), since: at(1).ms() };
        for ahead in [10_000, 20_000, 30_000, 40_000] {
            wall.set(ahead, at(1));
        }
        assert_eq!(wall.step(), granted.step);
        assert!(wall.has_passed(granted, at(2)), "it was written before all");
    }
}
