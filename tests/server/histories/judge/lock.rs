//! A lock that does one thing after the other. It knows no server, no queue and no clock: only by what time a hold can't
//! have ended yet, and by what time it must have.

use super::super::history::{Micros, Mode};
use super::super::life::TOLERANCE;
use super::Span;
use super::step::{Granted, Id, Step, Tie, Unheard};
use std::collections::BTreeMap;
use todc_utils::specifications::Specification;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Lock {
    /// It is certainly not earlier.
    now: Micros,
    /// The highest number.
    last: i64,
    doubted: bool,
    owners: BTreeMap<Id, Owner>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Owner {
    hold: Option<Hold>,
    /// It may be granted the lock without a word until then, by a number above this one.
    hope: Option<(Micros, i64)>,
    place: Option<Place>,
    /// Some of its calls may still be done: one that prolongs, one that ends, one that says a new ttl.
    may_prolong: bool,
    may_end: bool,
    may_renew: Option<Micros>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    above: i64,
    /// For how long what it is granted is kept for its owner.
    lease: Micros,
    /// Whether it may have been claimed by what was said of another lock.
    claimed: bool,
    /// Whether the server may have forgotten that it was to be claimed.
    forgotten: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hold {
    /// Whether it is certainly exclusive.
    alone: bool,
    number: Number,
    /// It does not end by itself before the one, and has ended by the other.
    least: Micros,
    most: Micros,
    tie: Tied,
    /// Whether a server that has taken over may know nothing of it, and keeps it from others all the same.
    lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Number {
    Is(i64),
    /// Forgotten perhaps, or never told.
    Above(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Tied {
    No,
    To(Tie),
    /// It may be tied to this or to none.
    Perhaps(Tie),
}

impl Hold {
    /// Until when it has certainly not ended.
    fn certain(&self) -> Micros {
        match self.tie {
            Tied::No => self.least,
            Tied::To(tie) | Tied::Perhaps(tie) => self.least.min(tie.alive),
        }
    }
}

impl Owner {
    fn may_hold(&self, now: Micros) -> bool {
        self.hold.as_ref().is_some_and(|hold| now <= hold.most)
            || self.hope.is_some_and(|(until, _)| now <= until)
            || self.place.is_some()
    }

    /// The end of a hold that lasts from a moment between these two for so long.
    fn ends(&self, ttl: Micros, start: Micros, end: Micros) -> (Micros, Micros) {
        let least = (start + ttl.min(self.may_renew.unwrap_or(ttl))).saturating_sub(TOLERANCE);
        let most = end.saturating_add(ttl + TOLERANCE);
        (if self.may_end { 0 } else { least }, if self.may_prolong { Micros::MAX } else { most })
    }

    /// The least number that a grant without a word can have had.
    fn above(&self) -> Option<i64> {
        let hope = self.hope.map(|(_, above)| above);
        hope.into_iter().chain(self.place.as_ref().map(|place| place.above)).min()
    }
}

impl Specification for Lock {
    type State = Lock;
    type Operation = Span<Step>;

    fn init() -> Lock {
        Lock::default()
    }

    fn apply(span: &Span<Step>, lock: &Lock) -> (bool, Lock) {
        let mut next = lock.clone();
        next.now = next.now.max(span.start);
        let is_right = next.does(&span.step, span.end) && next.now <= span.end;
        if !is_right {
            return (false, lock.clone());
        }
        next.forget_what_is_over();
        (true, next)
    }
}

impl Lock {
    /// Does it at a moment that is not after `end`, if it can have been answered so.
    fn does(&mut self, step: &Step, end: Micros) -> bool {
        match *step {
            Step::Granted(granted) => self.grants(granted, end),
            Step::Denied { owner, same_words, needs_another } => {
                (!same_words || self.lacks(owner, end))
                    && (!needs_another || self.is_taken_beside(owner))
            }
            Step::Placed { owner, several, lease, above } => {
                let is_right = self.lacks(owner, end);
                let place = Place { above, lease, claimed: several, forgotten: false };
                self.owner(owner).place = Some(place);
                is_right
            }
            Step::Held { owner, left, alone } => {
                self.knows(owner, alone, end) && self.has_left(owner, left, end)
            }
            Step::NotHeld { owner, renewed_end } => {
                if let Some(hold) = &mut self.owner(owner).hold {
                    hold.least = hold.least.min(renewed_end.unwrap_or(Micros::MAX));
                }
                self.lacks(owner, end)
            }
            Step::Released { owner, held, alone } => {
                let is_right = match held {
                    Some(true) => !self.is_unclaimed(owner) && self.knows(owner, alone, end),
                    Some(false) => self.lacks(owner, end),
                    None => true,
                };
                let one = self.owner(owner);
                (one.hold, one.place) = (None, None);
                is_right
            }
            Step::Renewed { owner, alone, .. } => {
                self.knows(owner, alone, end) && self.renews(step, end)
            }
            Step::HungUp { owner, connection } => self.hangs_up(owner, connection),
            Step::Unheard { owner, call, above } => self.may_do(owner, call, above),
            Step::Ended => {
                self.owners.values_mut().for_each(|owner| owner.hold = None);
                true
            }
            Step::Doubted => {
                self.doubted = true;
                true
            }
            Step::Forgotten { by, ref placed } => {
                self.forgets(by);
                for owner in placed.iter() {
                    self.owner(*owner).hope = Some((Micros::MAX, 0));
                }
                true
            }
            Step::TakenOver { ref owners, longest, quarantine } => {
                let until = end.saturating_add(longest + TOLERANCE);
                for owner in owners.iter() {
                    let one = self.owner(*owner);
                    one.hold = one.hold.take().filter(|_| quarantine);
                    one.hold.iter_mut().for_each(|hold| hold.lost = true);
                    one.place = None;
                    let later = one.hope.map_or(until, |(other, _)| other.max(until));
                    one.hope = Some((later, 0));
                }
                true
            }
        }
    }

    fn owner(&mut self, owner: Id) -> &mut Owner {
        self.owners.entry(owner).or_default()
    }

    fn certain(&self, hold: &Hold) -> Micros {
        if self.doubted { 0 } else { hold.certain() }
    }

    fn grants(&mut self, granted: Granted, end: Micros) -> bool {
        let Granted { owner, mode, ttl, number, tie, is_tie_sure, lease, same_words } = granted;
        let alone = mode == Mode::Exclusive;
        if !self.others_give_way(owner, alone, end) {
            return false;
        }
        let (last, now) = (self.last, self.now);
        let old = self.owner(owner).hold.take().filter(|hold| now <= hold.most);
        let one = self.owner(owner);
        let above = one.above().unwrap_or(last);
        let goes_on = old.as_ref().is_some_and(|hold| match hold.number {
            Number::Is(known) => known == number,
            Number::Above(above) => number > above,
        });
        if !goes_on {
            // A hold in the same words has its number for as long as it lasts.
            if let Some(hold) = old.as_ref().filter(|hold| same_words && !hold.lost) {
                let over = self.certain(hold);
                if over > end {
                    return false;
                }
                self.now = self.now.max(over);
            }
            // An owner that is there already needs no room. In the same words it has the number by which it was granted
            // that, unless the server has forgotten it or has never known it.
            let one = self.owner(owner);
            let is_new_to_it = one.hope.is_some_and(|(_, above)| above == 0)
                || one.place.as_ref().is_some_and(|place| place.forgotten);
            let is_there = (one.hope.is_some() || one.place.is_some())
                && (!same_words || is_new_to_it)
                || old.is_some();
            let has_room = is_there || self.has_room_for(owner, mode, number, end);
            if number <= above || !has_room {
                return false;
            }
        }
        let now = self.now;
        let one = self.owner(owner);
        let (least, most) = one.ends(ttl, now, end);
        // What was granted without a word may have moved, and lasts as long as its place would have.
        let is_moved = one.place.as_ref().is_some_and(|place| place.forgotten);
        // It may be claimed in other words than it was asked for.
        let kept = one.place.as_ref().map_or(0, |place| place.lease);
        // A server that has taken over does not know that it was still to be claimed.
        let hoped = one.hope.map_or(0, |(until, _)| until);
        let most = if is_moved {
            Micros::MAX
        } else {
            most.max(end.saturating_add(lease.max(kept) + TOLERANCE)).max(hoped)
        };
        let mut hold = Hold {
            alone,
            number: Number::Is(number),
            least,
            most,
            tie: tie.map_or(Tied::No, if is_tie_sure { Tied::To } else { Tied::Perhaps }),
            lost: false,
        };
        if let Some(old) = old.filter(|_| goes_on || !same_words) {
            // A retry shortens nothing.
            hold.least = old.least.max(least);
            hold.most = old.most.max(most);
        }
        one.hold = Some(hold);
        // One for several locks that was asked for in other words goes on.
        one.place.take_if(|place| same_words || !place.claimed);
        self.last = self.last.max(number);
        true
    }

    /// All whose holds do not bear this one have ended them by now.
    fn others_give_way(&mut self, owner: Id, alone: bool, end: Micros) -> bool {
        let doubted = self.doubted;
        for (_, other) in self.owners.iter_mut().filter(|(id, _)| **id != owner) {
            let Some(hold) = other.hold.take_if(|hold| alone || hold.alone) else {
                continue;
            };
            let over = if doubted { 0 } else { hold.certain() };
            if over > end {
                return false;
            }
            self.now = self.now.max(over);
        }
        true
    }

    /// Numbers tell in which order they were granted: fewer than so many of those before it hold the lock still.
    fn has_room_for(&self, owner: Id, mode: Mode, number: i64, end: Micros) -> bool {
        let is_before = |hold: &Hold| {
            self.certain(hold) > end && matches!(hold.number, Number::Is(other) if other < number)
        };
        let others = self.owners.iter().filter(|(id, _)| **id != owner);
        let before = others.filter(|(_, other)| other.hold.as_ref().is_some_and(is_before));
        match mode {
            Mode::Limit(limit) => before.count() < limit,
            Mode::Exclusive | Mode::Shared => true,
        }
    }

    /// Its owner may hold it, and then no other does whom it does not bear.
    fn knows(&mut self, owner: Id, alone: bool, end: Micros) -> bool {
        let now = self.now;
        let one = self.owner(owner);
        let alone = alone || one.hold.as_ref().is_some_and(|hold| now <= hold.most && hold.alone);
        one.may_hold(now) && self.others_give_way(owner, alone, end)
    }

    /// Its owner does not hold it, so whatever it held is over by now.
    fn lacks(&mut self, owner: Id, end: Micros) -> bool {
        let Some(hold) = self.owner(owner).hold.take() else {
            return true;
        };
        if hold.lost {
            self.owner(owner).hold = Some(hold);
            return true;
        }
        let over = self.certain(&hold);
        self.now = self.now.max(over);
        over <= end
    }

    fn is_taken_beside(&self, owner: Id) -> bool {
        let mut others = self.owners.iter().filter(|(id, _)| **id != owner);
        others.any(|(_, other)| other.may_hold(self.now))
    }

    /// What was granted without a word is no hold to RELEASE before it is claimed.
    fn is_unclaimed(&mut self, owner: Id) -> bool {
        let now = self.now;
        let one = self.owner(owner);
        let is_hold = one.hold.as_ref().is_some_and(|hold| now <= hold.most);
        let is_hope = one.hope.is_some_and(|(until, _)| now <= until);
        !is_hold && !is_hope && one.place.as_ref().is_some_and(|place| !place.claimed)
    }

    fn has_left(&mut self, owner: Id, left: Option<Micros>, end: Micros) -> bool {
        let (now, doubted) = (self.now, self.doubted);
        let one = self.owner(owner);
        let (Some(left), Some(hold)) = (left, &mut one.hold) else {
            return true;
        };
        if now > hold.most {
            return true;
        }
        let least = (now + left).saturating_sub(TOLERANCE);
        let most = end.saturating_add(left + TOLERANCE);
        // A BREAK that was not answered may be done at any time.
        if (most < hold.least && !doubted) || least > hold.most {
            return false;
        }
        if !one.may_end && one.may_renew.is_none() {
            hold.least = hold.least.max(least);
        }
        if !one.may_prolong {
            hold.most = hold.most.min(most);
        }
        true
    }

    fn renews(&mut self, step: &Step, end: Micros) -> bool {
        let Step::Renewed { owner, ttl, alone, may_be_tied } = *step else {
            return false;
        };
        let (now, last) = (self.now, self.last);
        let one = self.owner(owner);
        let (least, most) = one.ends(ttl, now, end);
        match one.hold.as_mut().filter(|hold| now <= hold.most) {
            Some(hold) => (hold.least, hold.most) = (least, most),
            None => {
                // What was granted without a word is claimed.
                let above = one.above().unwrap_or(last);
                one.hold = Some(Hold {
                    alone,
                    number: Number::Above(above),
                    least,
                    most,
                    tie: if may_be_tied {
                        Tied::Perhaps(Tie { connection: 0, alive: 0 })
                    } else {
                        Tied::No
                    },
                    lost: false,
                });
                one.place = None;
            }
        }
        true
    }

    fn hangs_up(&mut self, owner: Id, connection: u64) -> bool {
        let one = self.owner(owner);
        let may_be_another_s = one.may_prolong || one.may_end;
        match &mut one.hold {
            Some(Hold { tie: Tied::To(tie), .. })
                if tie.connection == connection && !may_be_another_s =>
            {
                one.hold = None;
            }
            Some(hold) if hold.tie != Tied::No || may_be_another_s => hold.least = 0,
            _ => {}
        }
        true
    }

    fn may_do(&mut self, owner: Id, call: Unheard, above: i64) -> bool {
        let now = self.now;
        let one = self.owner(owner);
        match call {
            Unheard::Ask { tie, alone } => {
                one.may_prolong = true;
                one.hope =
                    Some((Micros::MAX, one.hope.map_or(above, |(_, other)| other.min(above))));
                if let Some(hold) = &mut one.hold {
                    hold.most = Micros::MAX;
                    hold.alone &= alone;
                    // It may be tied to that connection now, or tied no more.
                    hold.tie = match (hold.tie, tie) {
                        (Tied::No, None) => Tied::No,
                        (Tied::No, Some(tie)) => Tied::Perhaps(tie),
                        (Tied::To(tie) | Tied::Perhaps(tie), None) => Tied::Perhaps(tie),
                        (Tied::To(old) | Tied::Perhaps(old), Some(new)) => {
                            Tied::Perhaps(if old.alive < new.alive { old } else { new })
                        }
                    };
                }
                // Whatever it asks for later may be tied, too.
                one.may_end |= tie.is_some();
            }
            Unheard::Renew { ttl } => {
                one.may_prolong = true;
                one.may_renew = Some(one.may_renew.map_or(ttl, |other| other.min(ttl)));
                if let Some(hold) = &mut one.hold {
                    hold.most = Micros::MAX;
                    hold.least = hold.least.min((now + ttl).saturating_sub(TOLERANCE));
                }
                if let Some(place) = &mut one.place {
                    place.claimed = true;
                }
            }
            Unheard::End => {
                one.may_end = true;
                one.hold.iter_mut().for_each(|hold| hold.least = 0);
            }
        }
        true
    }

    fn forgets(&mut self, by: Micros) {
        for owner in self.owners.values_mut() {
            if let Some(hold) = &mut owner.hold {
                if let Number::Is(number) = hold.number {
                    hold.number = Number::Above(number.saturating_sub(1));
                }
                if let Tied::To(tie) = hold.tie {
                    hold.tie = Tied::Perhaps(tie);
                }
                hold.most = hold.most.saturating_add(by);
            }
            if let Some(place) = &mut owner.place {
                (place.claimed, place.forgotten) = (true, true);
            }
        }
    }

    fn forget_what_is_over(&mut self) {
        let now = self.now;
        self.owners.retain(|_, owner| {
            owner.hold.take_if(|hold| hold.most < now);
            owner.hope.take_if(|(until, _)| *until < now);
            *owner != Owner::default()
        });
    }
}
