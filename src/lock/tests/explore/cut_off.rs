//! A master that was cut off as another took over, and goes on granting to the clients that still reach it.
//! Only its numbers are of interest: a resource that the lock protects sees those of both.

use std::hash::{Hash, Hasher};
use std::mem::replace;

use crate::lock::Ms;
use crate::lock::fence::{Fence, FencingClock};
use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::time::Now;

#[derive(Debug)]
pub struct CutOff {
    numbers: FencingClock,
    /// How far its wall clock is ahead of its successor's.
    apart: i64,
    /// When it was cut off, by its successor's clock.
    since: Ms,
    /// Its last number.
    highest: Fence,
    /// The number that its successor began with, which it has given to no client; and its first one.
    began: Fence,
    first: Option<Fence>,
}

impl CutOff {
    /// Takes the numbers of a server in whose place another begins now.
    pub fn of(clock: &mut FencingClock, wall: Ms) -> (FencingClock, Ms) {
        let other = FencingClock::new(Now::from_micros(wall * 1000), false);
        (replace(clock, other), wall)
    }

    /// The other has begun.
    pub fn from((numbers, wall): (FencingClock, Ms), successor: &FencingClock, now: Ms) -> Self {
        Self {
            highest: numbers.last(),
            numbers,
            apart: wall.cast_signed() - now.cast_signed(),
            since: now,
            began: successor.last(),
            first: None,
        }
    }

    /// For how long it may go on: the time since then and what the clocks differ by stay below the lead.
    fn left(&self, now: Ms, lead: Ms) -> Ms {
        let gone = now.saturating_sub(self.since) + self.apart.unsigned_abs();
        lead.saturating_sub(gone)
    }

    /// It grants once more, if it still may.
    pub fn grants(&mut self, now: Ms, lead: Ms) -> Verdict<bool> {
        if self.left(now, lead) == 0 {
            return Ok(false);
        }
        let wall = now.saturating_add_signed(self.apart);
        self.highest = self.numbers.next(Now::from_micros(wall * 1000));
        self.is_below()?;
        Ok(true)
    }

    /// Notes the first number of its successor.
    pub fn follow(&mut self, successor: &FencingClock) -> Verdict {
        if self.first.is_none() && successor.last() > self.began {
            self.first = Some(successor.last());
            self.is_below()?;
        }
        Ok(())
    }

    fn is_below(&self) -> Verdict {
        let (old, new) = (self.highest, self.first);
        ensure(new.is_none_or(|new| old < new), || {
            format!("the old master has given {old}, and its successor had begun with {new:?}")
        })
    }

    /// All that decides what comes of it.
    pub fn hash(&self, now: Ms, lead: Ms, to: &mut impl Hasher) {
        let last = self.numbers.last();
        (last, last / 1000, !last.is_multiple_of(1000)).hash(to);
        (self.highest, self.first, self.began).hash(to);
        (self.apart + 100).unsigned_abs().hash(to);
        self.left(now, lead).hash(to);
    }
}
