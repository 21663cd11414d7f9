//! Fencing tokens: one clock for the whole server.
//!
//! Each number is larger than every earlier one of this server, and of every server that had the lock
//! before it. That needs no key and no write: a server that starts or takes over begins `lead` ahead of
//! the wall clock, and counts its grants from there until the wall clock has caught up. So a master that
//! was cut off and goes on granting stays below its successor: its numbers follow its own clock, or
//! count on from its own, earlier takeover.
//!
//! This holds as long as the difference of the clocks and the time for which the old master goes on
//! are together less than `lead`, and takeovers (a start, a failover, the move of a slot) are further
//! apart than the clocks differ.

use crate::lock::slot::{self, SLOTS};
use crate::lock::words::{Ahead, Limits, Ms, Now, Slot};

/// A fencing token: microseconds of Unix time, or a little ahead of it. Below 2^53, so that every
/// client language can hold it.
pub type Fence = u64;

/// A value that changes whenever slots may have moved to this server or away from it.
pub type Epoch = (u64, u64);

/// Whether a slot of a cluster belongs to this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotState {
    Settled,
    /// It is being moved away: the other server already grants the locks whose keys have been moved.
    Leaving,
    /// It is being moved here: the other server still grants the locks whose keys have not been moved.
    Coming,
}

/// What is known about a slot since this server's last grant in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    /// It may have been away since.
    Unknown,
    /// It has been here since.
    Ours,
    /// It was here then, but a write in it has been refused since: it is leaving or has left.
    Refused,
}

#[derive(Debug)]
pub struct FencingClock {
    last: Fence,
    /// How far ahead of the wall clock it begins at a takeover, in microseconds.
    lead: u64,
    /// Numbers up to this one may have been given before this process began.
    before: Fence,
    /// How far the wall clock is ahead. Numbers follow the wall clock, so that servers agree.
    ahead: Ahead,
    has_given: bool,
    /// In a cluster, what is known of each slot.
    slots: Option<Box<[Past]>>,
    /// The cluster's epoch at the last grant.
    epoch: Epoch,
}

impl FencingClock {
    /// Makes a clock that begins with a takeover.
    pub fn new(now: Now, in_cluster: bool) -> Self {
        let mut clock = Self {
            last: 0,
            ahead: 0,
            before: 0,
            lead: Limits::DEFAULT.fence_lead.saturating_mul(1000),
            has_given: false,
            slots: in_cluster.then(|| vec![Past::Unknown; SLOTS.into()].into_boxed_slice()),
            epoch: Epoch::default(),
        };
        clock.take_over(now);
        clock
    }

    /// Jumps ahead, because this server takes over from another, or from its own last run.
    pub fn take_over(&mut self, now: Now) {
        let begins = self.wall_micros(now).max(self.before);
        self.last = self.last.max(begins.saturating_add(self.lead));
    }

    /// Sets how far it jumps ahead, and takes over again: it may not have been far enough ahead until now.
    pub fn set_lead(&mut self, lead: Ms, now: Now) {
        self.lead = lead.saturating_mul(1000);
        if !self.has_given {
            // Nothing depends on the old lead yet. The steady clock counts too, in case the wall clock
            // has been set back since this clock was made.
            self.last = now.micros().saturating_add(self.lead);
        }
        self.take_over(now);
    }

    /// Begins above the numbers of `written`, in Unix time: the server's files were written then, so a wall
    /// clock that shows an earlier time has been set back.
    pub fn begin_after(&mut self, written: Ms, now: Now) {
        self.before = written.saturating_mul(1000);
        self.take_over(now);
    }

    /// Sets how far the wall clock is ahead, after it has been stepped.
    pub fn set_ahead(&mut self, ahead: Ahead) {
        self.ahead = ahead;
    }

    fn wall_micros(&self, now: Now) -> u64 {
        let ahead = self.ahead.saturating_mul(1000);
        now.micros().saturating_add_signed(ahead)
    }

    /// Returns the slot of this key, in a cluster.
    pub fn slot(&self, key: &[u8]) -> Option<Slot> {
        self.slots.as_ref().map(|_| slot::of(key))
    }

    /// Prepares a grant in this slot of a cluster: jumps ahead if the slot may have been away, which
    /// `slot_state` is then asked about.
    pub fn enter(
        &mut self,
        slot: Slot,
        now: Now,
        epoch: Epoch,
        slot_state: impl FnOnce() -> SlotState,
    ) {
        if std::mem::replace(&mut self.epoch, epoch) != epoch {
            // Any slot may have been away.
            self.slots.iter_mut().for_each(|slots| slots.fill(Past::Unknown));
        }
        let past = self.past(slot).map_or(Past::Unknown, |past| *past);
        if past == Past::Ours {
            return;
        }
        let state = slot_state();
        // The other server has already begun ahead of our clock. If we jumped ahead once more,
        // its next number could be smaller than ours.
        if (past, state) == (Past::Refused, SlotState::Leaving) {
            return;
        }
        self.take_over(now);
        // Until a slot on its way here has moved, the other server's numbers go on rising: we jump ahead at
        // each grant.
        let known = if state == SlotState::Coming { Past::Unknown } else { Past::Ours };
        if let Some(past) = self.past(slot) {
            *past = known;
        }
    }

    /// Draws the number of a new grant.
    pub fn next(&mut self, now: Now) -> Fence {
        self.has_given = true;
        self.last = self.wall_micros(now).max(self.last.saturating_add(1));
        self.last
    }

    /// Remembers that this slot is leaving or has left: another server may grant in it before we do again.
    pub fn slot_may_have_left(&mut self, slot: Slot) {
        if let Some(past) = self.past(slot)
            && *past == Past::Ours
        {
            *past = Past::Refused;
        }
    }

    /// The same, of the slot of this key.
    pub fn key_may_have_left(&mut self, key: &[u8]) {
        if let Some(slot) = self.slot(key) {
            self.slot_may_have_left(slot);
        }
    }

    fn past(&mut self, slot: Slot) -> Option<&mut Past> {
        self.slots.as_mut()?.get_mut(usize::from(slot))
    }
}

#[cfg(test)]
impl FencingClock {
    /// Returns the last number that was drawn. All later ones are larger.
    pub fn last(&self) -> Fence {
        self.last
    }

    /// Returns what is known about slots, except for those of which nothing is known.
    pub fn known_slots(&self) -> impl std::fmt::Debug {
        let slots = self.slots.iter().flatten();
        let known = { slots }.enumerate().filter(|(_, past)| **past != Past::Unknown);
        known.map(|(slot, &past)| (slot, past)).collect::<Vec<_>>()
    }
}

#[cfg(test)]
#[allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "small numbers, and a test fails by a panic"
)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    /// In seconds.
    const LEAD: u64 = Limits::DEFAULT.fence_lead / 1000;

    fn at(seconds: u64) -> Now {
        Now::from_micros(seconds * SECOND)
    }

    fn ahead_of(seconds: u64) -> Fence {
        (seconds + LEAD) * SECOND
    }

    #[test]
    fn numbers_rise_when_the_wall_clock_stands_or_goes_back() {
        let mut clock = FencingClock::new(at(100), false);
        let numbers: Vec<_> = [100, 100, 90, 106, 106, 50, 100 + 2 * LEAD]
            .map(|seconds| clock.next(at(seconds)))
            .to_vec();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert_eq!(numbers[0], ahead_of(100) + 1);
        assert_eq!(numbers.last(), Some(&ahead_of(100 + LEAD)));
    }

    #[test]
    fn a_server_that_takes_over_is_ahead_although_its_clock_lags_by_almost_the_lead() {
        let mut old = FencingClock::new(at(0), false);
        // It has been a master for so long that its numbers follow its clock.
        let before = old.next(at(10 * LEAD));
        let lagging = Now::from_micros(9 * LEAD * SECOND + 1);
        let mut new = FencingClock::new(lagging, false);
        assert!(new.next(lagging) > before);
    }

    /// Each master that was cut off goes on for a while, with thousands of grants; and the clocks are as much
    /// as a day apart, in any direction. The last two have taken over at different times from the first.
    #[test]
    fn the_numbers_of_a_master_that_was_cut_off_stay_below_all_of_its_successors() {
        const HALF: i64 = 43_200;
        const GOES_ON: u64 = 5 * 86_400;
        for (first, second, third) in
            [(0, 0, 0), (0, -HALF, HALF), (HALF, 0, -HALF), (-HALF, HALF, 0), (HALF, -HALF, 0)]
        {
            // The takeovers are further apart than any two clocks, at 10, 12 and 15 days.
            let takeovers = [(10, first), (12, second), (15, third)];
            let by = |clock: i64, seconds: u64| at(seconds.saturating_add_signed(clock));
            let mut before: Vec<(FencingClock, i64, u64)> = Vec::new();
            for (day, clock) in takeovers {
                let began = day * 86_400;
                let mut now = FencingClock::new(by(clock, began), false);
                let lowest = now.next(by(clock, began));
                for (old, its, was) in &mut before {
                    // What it grants from now on, as long as the two together stay below the lead.
                    for grant in 0..5000 {
                        let later = began + grant * (GOES_ON - (began - *was)) / 5000;
                        let number = old.next(by(*its, later));
                        assert!(number < lowest, "of {was} after {later}: {number}, {lowest}");
                    }
                }
                before.push((now, clock, began));
            }
        }
    }

    #[test]
    fn a_server_that_starts_with_a_clock_that_was_set_back_begins_after_what_was_written_last() {
        let mut old = FencingClock::new(at(4900), false);
        let before = old.next(at(5000));
        let mut new = FencingClock::new(at(100), false);
        new.begin_after(5_000_000, at(100));
        let first = new.next(at(101));
        assert!(first > before, "{first}");
        assert!(new.next(at(6000)) > first);
    }

    #[test]
    fn in_a_cluster_the_first_grant_in_a_slot_jumps_ahead_and_the_second_does_not() {
        let mut clock = FencingClock::new(at(0), true);
        let mut next = |slot, seconds, epoch: u64| {
            if epoch == 0 {
                clock.slot_may_have_left(slot);
            }
            clock.enter(slot, at(seconds), (1, epoch.max(1)), || SlotState::Settled);
            clock.next(at(seconds))
        };
        assert_eq!(next(1, 100, 1), ahead_of(100) + 1);
        assert_eq!(next(1, 200, 1), ahead_of(100) + 2);
        assert_eq!(next(2, 200, 1), ahead_of(200) + 1);
        assert_eq!(next(1, 300, 0), ahead_of(300) + 1, "the slot may have left");
        assert_eq!(next(1, 400, 1), ahead_of(300) + 2);
        assert_eq!(next(1, 500, 2), ahead_of(500) + 1, "slots have moved");
        assert_eq!(next(2, 600, 2), ahead_of(600) + 1);
        assert_eq!(next(2, 700, 2), ahead_of(600) + 2);
    }

    /// One lock in a slot that is on its way from the first server to the second, and back.
    #[test]
    fn while_a_slot_moves_the_numbers_of_the_one_who_gets_it_are_above_those_of_the_one_who_had_it()
    {
        let mut clocks = [FencingClock::new(at(0), true), FencingClock::new(at(0), true)];
        let mut next = |server: usize, seconds, slot_state| {
            let clock = &mut clocks[server];
            clock.enter(1, at(seconds), (1, 1), || slot_state);
            clock.next(at(seconds))
        };
        let numbers = [
            next(0, 100, SlotState::Settled),
            // It leaves: the first of the second server, and one of the first that is still there.
            next(1, 110, SlotState::Coming),
            next(0, 130, SlotState::Leaving),
            // That one has come over too, and the second server's clock lags.
            next(1, 127, SlotState::Coming),
            next(1, 128, SlotState::Coming),
        ];
        assert!(numbers[2] < numbers[3] && numbers[3] < numbers[4], "{numbers:?}");

        clocks[0].slot_may_have_left(1);
        let mut next = |seconds, slot_state| {
            clocks[0].enter(1, at(seconds), (1, 1), || slot_state);
            clocks[0].next(at(seconds))
        };
        assert_eq!(
            next(140, SlotState::Leaving),
            ahead_of(100) + 3,
            "it has been here all the time"
        );
        assert_eq!(next(150, SlotState::Settled), ahead_of(150) + 1, "it stays after all");
        assert_eq!(next(160, SlotState::Leaving), ahead_of(150) + 2, "it leaves again");
    }

    #[test]
    fn a_slot_that_leaves_jumps_ahead_at_the_first_grant_and_when_it_has_been_away() {
        let mut clock = FencingClock::new(at(0), true);
        let next = |clock: &mut FencingClock, seconds, slot_state| {
            clock.enter(1, at(seconds), (1, 1), || slot_state);
            clock.next(at(seconds))
        };
        let first = next(&mut clock, 100, SlotState::Leaving);
        assert_eq!(first, ahead_of(100) + 1);
        assert_eq!(next(&mut clock, 110, SlotState::Leaving), ahead_of(100) + 2);

        clock.slot_may_have_left(1);
        let on_its_way_back = next(&mut clock, 200, SlotState::Coming);
        assert_eq!(on_its_way_back, ahead_of(200) + 1);
        let turned_round = next(&mut clock, 210, SlotState::Leaving);
        assert_eq!(turned_round, ahead_of(210) + 1);
    }
}
