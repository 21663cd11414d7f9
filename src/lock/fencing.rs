//! Fencing numbers: one clock for the whole server.
//!
//! A number is larger than every earlier one of this server, and than those of the server that had
//! the lock before it, as long as their clocks agree within `skew`. That costs no key and no write:
//! the numbers follow the wall clock, and whoever takes over begins `skew` ahead of it.

use super::limits::Limits;
use super::slot::{self, SLOTS, Slot};
use super::time::{Ms, Now};

/// A fencing number: microseconds of Unix time, or a little ahead of it. Below 2^53, so that every
/// client language can hold it.
pub type Fence = u64;

/// Something that changes whenever slots may have moved to this server or from it.
pub type Epoch = (u64, u64);

/// Where the fencing numbers come from.
#[derive(Debug)]
pub struct FencingClock {
    last: Fence,
    skew: u64,
    /// Has it given a number since it was made?
    has_given: bool,
    /// In a cluster, the slots in which this server has granted since it had them.
    granted_in: Option<Box<[bool]>>,
    /// The cluster's word by which we know that slots have moved.
    epoch: Epoch,
}

impl FencingClock {
    /// A clock that starts as one that takes over.
    pub fn new(now: Now, in_cluster: bool) -> Self {
        let mut clock = Self {
            last: 0,
            skew: Limits::DEFAULT.max_clock_skew.saturating_mul(1000),
            has_given: false,
            granted_in: in_cluster.then(|| vec![false; SLOTS.into()].into_boxed_slice()),
            epoch: Epoch::default(),
        };
        clock.take_over(now);
        clock
    }

    /// This server takes over from another, or from itself before it stopped.
    pub fn take_over(&mut self, now: Now) {
        self.last = self.last.max(now.micros().saturating_add(self.skew));
    }

    /// Two servers' clocks may differ by so much; this one may have been too little ahead until now.
    pub fn set_skew(&mut self, skew: Ms, now: Now) {
        self.skew = skew.saturating_mul(1000);
        if !self.has_given {
            self.last = 0;
        }
        self.take_over(now);
    }

    /// The slot of this key, in a cluster.
    pub fn slot(&self, key: &[u8]) -> Option<Slot> {
        self.granted_in.as_ref().map(|_| slot::of(key))
    }

    /// The number of a new grant in this slot. `epoch` is asked only in a cluster.
    pub fn next(&mut self, slot: Option<Slot>, now: Now, epoch: impl FnOnce() -> Epoch) -> Fence {
        if let Some(slot) = slot {
            self.mind_moves(epoch());
            if !self.mark(slot, true) {
                self.take_over(now);
            }
        }
        self.has_given = true;
        self.last = now.micros().max(self.last.saturating_add(1));
        self.last
    }

    /// This slot is leaving or has left: another server may grant in it before we do so again.
    pub fn slot_may_have_left(&mut self, slot: Slot) {
        self.mark(slot, false);
    }

    /// In another epoch any slot may have been away.
    fn mind_moves(&mut self, epoch: Epoch) {
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            self.granted_in
                .iter_mut()
                .for_each(|slots| slots.fill(false));
        }
    }

    /// Sets the mark of this slot and says what it was.
    fn mark(&mut self, slot: Slot, granted: bool) -> bool {
        self.granted_in
            .as_mut()
            .and_then(|slots| slots.get_mut(usize::from(slot)))
            .is_some_and(|mark| std::mem::replace(mark, granted))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "small numbers")]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn at(seconds: u64) -> Now {
        Now::from_micros(seconds * SECOND)
    }

    #[test]
    fn numbers_rise_when_the_wall_clock_stands_or_goes_back() {
        let mut clock = FencingClock::new(at(100), false);
        let numbers: Vec<_> = [100, 100, 90, 106, 106, 50, 200]
            .map(|seconds| clock.next(None, at(seconds), Epoch::default))
            .to_vec();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert_eq!(numbers.last(), Some(&(200 * SECOND)));
    }

    #[test]
    fn a_server_that_takes_over_is_ahead_although_its_clock_lags_by_almost_the_skew() {
        let mut old = FencingClock::new(at(0), false);
        let before = old.next(None, at(100), Epoch::default);
        let lagging = Now::from_micros(95 * SECOND + 1);
        let mut new = FencingClock::new(lagging, false);
        assert!(new.next(None, lagging, Epoch::default) > before);
    }

    #[test]
    fn in_a_cluster_the_first_grant_in_a_slot_jumps_ahead_and_the_second_does_not() {
        let mut clock = FencingClock::new(at(0), true);
        let mut next = |slot, seconds, epoch: u64| {
            if epoch == 0 {
                clock.slot_may_have_left(slot);
            }
            clock.next(Some(slot), at(seconds), || (1, epoch.max(1)))
        };
        assert_eq!(next(1, 100, 1), 105 * SECOND + 1);
        assert_eq!(next(1, 200, 1), 200 * SECOND);
        assert_eq!(next(2, 200, 1), 205 * SECOND + 1);
        assert_eq!(next(1, 300, 0), 305 * SECOND + 1, "the slot may have left");
        assert_eq!(next(1, 400, 1), 400 * SECOND);
        assert_eq!(next(1, 500, 2), 505 * SECOND + 1, "slots have moved");
        assert_eq!(next(2, 600, 2), 605 * SECOND + 1);
        assert_eq!(next(2, 700, 2), 700 * SECOND);
    }
}
