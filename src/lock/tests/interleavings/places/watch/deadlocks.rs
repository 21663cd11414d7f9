//! A request that surely waits for its own owner must have been refused. What lies between is judged by the histories
//! of `orders`, which try every order of release.

use super::*;

impl Watch {
    /// It waits, and has not been refused: then no sure way leads from it back to its owner.
    pub(super) fn waits_not_for_itself(
        &self,
        no: No,
        was: &BTreeMap<No, Wait>,
        now: Ms,
    ) -> Verdict {
        let one = &self.waits[&no];
        let is_sure = self.surely_waits_for_itself((no, one), was, now);
        ensure(!is_sure, || format!("{no} waits for its own owner: {one:?}"))
    }

    pub(super) fn surely_waits_for_itself(
        &self,
        (no, one): (No, &Wait),
        was: &BTreeMap<No, Wait>,
        now: Ms,
    ) -> bool {
        // What others have written elsewhere may not have been looked at.
        if !self.was_resting {
            return false;
        }
        // One that waits again since this request has ended its grant had its turn when the request was judged.
        let waits = |other: No, one: &Wait| {
            let waited =
                |one: &Wait| one.state == State::Waiting && one.least > now && !one.perhaps;
            waited(one) && (other == no || was.get(&other).is_some_and(waited))
        };
        let mut seen = BTreeSet::new();
        let mut to_visit = self.surely_waits_for(no, one, waits);
        while let Some(owner) = to_visit.pop() {
            if owner == one.owner {
                return true;
            }
            if seen.insert(owner) {
                // In each database an owner waits by one request, and each is searched by itself.
                let is_its =
                    |other: &Wait| other.owner == owner && other.locks[0].0 == one.locks[0].0;
                for (&no, one) in self.waits.iter().filter(|(_, one)| is_its(one)) {
                    to_visit.extend(self.surely_waits_for(no, one, waits));
                }
            }
        }
        false
    }

    /// The owners that must let go, or be served, before this one is served, whatever all others do.
    fn surely_waits_for(
        &self,
        no: No,
        one: &Wait,
        waits: impl Fn(No, &Wait) -> bool,
    ) -> Vec<Owner> {
        let mut others = self.waits.iter().filter(|(other, _)| **other != no);
        // By another request for the same its owner may be granted this too.
        let is_alone =
            !others.any(|(_, other)| one.locks.iter().any(|&lock| other.wants(lock, one.owner)));
        if !is_alone || !waits(no, one) || self.may_be_upgrade(one) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for &lock in &one.locks {
            let mode = one.plea.mode;
            if self.seen.hold(lock, one.owner).is_some() {
                continue;
            }
            let held = self.seen.holders(lock).iter();
            let held = held.filter(|held| Mode::Exclusive == mode || held.how == Hold::Exclusive);
            found.extend(held.map(|held| held.owner));
            let earlier = self.waits.range(..no).filter(|&(&no, other)| {
                let modes = [mode, other.plea.mode];
                waits(no, other) && other.locks.contains(&lock) && modes.contains(&Mode::Exclusive)
            });
            found.extend(earlier.map(|(_, other)| other.owner));
        }
        found
    }
}
