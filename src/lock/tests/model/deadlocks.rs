//! Deadlocks: what would come of all waiting if everybody who waits for nothing let go of all.

use super::{Fit, Held, Key, Model, Seen, Verdict, Waiter, ensure, is_up};
use crate::lock::tests::simulated::{Lock, Owner, Plea};
use crate::lock::{Claim, Deadlock, Hold, Mode, Ms};

/// Whether owners let go soon or late. It may make a difference to who comes in together with whom
/// before one of them stands before everybody else; where it does, either answer is right.
const EVER: [bool; 2] = [true, false];

impl Model {
    pub(super) fn is_no_deadlock(&mut self, plea: &Plea, now: Ms, seen: &Seen<'_>) -> Verdict {
        let deadlock = EVER.map(|soon| self.is_on_a_deadlock(plea.owner, now, soon)) == [true; 2];
        let stuck = self.stuck(now, true).contains(&plea.owner);
        self.tally.no_deadlock += u64::from(stuck && !deadlock);
        ensure(!deadlock || !seen.up_to_date, || {
            format!("{} waits on a deadlock: {:?}", plea.owner, self.queue)
        })
    }

    pub(super) fn is_deadlock(
        &mut self,
        plea: &Plea,
        deadlock: &Deadlock,
        now: Ms,
        seen: &Seen<'_>,
    ) -> Verdict {
        if !seen.up_to_date {
            return Ok(());
        }
        self.tally.deadlocks += 1;
        let is_one = EVER.map(|soon| self.is_on_a_deadlock(plea.owner, now, soon)) != [false; 2];
        ensure(is_one, || {
            format!(
                "{} is refused, but there is no deadlock: {deadlock:?}",
                plea.owner
            )
        })?;
        self.says_the_truth(plea.owner, deadlock, now)
    }

    /// Does the owner wait for ever, for others who wait for ever, and they for it?
    fn is_on_a_deadlock(&self, owner: Owner, now: Ms, soon: bool) -> bool {
        let stuck = self.stuck(now, soon);
        let mut reached = Vec::new();
        let mut to_visit = vec![owner];
        while let Some(one) = to_visit.pop() {
            for next in self.waits_for(one, now) {
                if stuck.contains(&next) && !reached.contains(&next) {
                    reached.push(next);
                    to_visit.push(next);
                }
            }
        }
        reached.contains(&owner)
    }

    /// The owners that never get what they wait for, whatever the others let go of: each as soon as
    /// it waits for nothing, or only when nobody else can be granted anything.
    fn stuck(&self, now: Ms, soon: bool) -> Vec<Owner> {
        let mut future = self.as_it_is(now);
        loop {
            future.let_go();
            let before = future.queue.len();
            while future.grant_one(now) {
                if soon {
                    future.let_go();
                }
            }
            future.fresh_shares.clear();
            if future.queue.len() == before {
                return (future.queue.iter())
                    .map(|waiter| waiter.plea.owner)
                    .collect();
            }
        }
    }

    fn grant_one(&mut self, now: Ms) -> bool {
        let next = self.queue.iter().find_map(|waiter| {
            let fits = self.fits_of(waiter, now)?;
            Some((waiter.clone(), fits))
        });
        let Some((waiter, fits)) = next else {
            return false;
        };
        self.queue.retain(|other| other.ticket != waiter.ticket);
        let (owner, hold) = (waiter.plea.owner, waiter.plea.mode.hold());
        for (lock, fit) in fits {
            self.hold(lock, owner, hold);
            if hold == Hold::Shared && matches!(fit, Fit::Open(_)) {
                self.fresh_shares.push((lock, owner));
            }
        }
        true
    }

    /// Only who holds and who waits. What is no lock will be gone some day.
    fn as_it_is(&self, now: Ms) -> Self {
        let mut future = Self {
            queue: self.queue.clone(),
            ..Self::default()
        };
        future.queue.retain(|waiter| !is_up(waiter.until(), now));
        for Key { lock, .. } in &self.keys {
            for (owner, _) in self.holders(*lock, now) {
                let shared = self.is_shared(*lock, now);
                let hold = if shared {
                    Hold::Shared
                } else {
                    Hold::Exclusive
                };
                future.hold(*lock, owner, hold);
            }
        }
        future
    }

    /// Who holds a lock alone keeps it alone.
    fn hold(&mut self, lock: Lock, owner: Owner, hold: Hold) {
        let held = match self.keys.iter().find(|key| key.lock == lock) {
            Some(Key {
                held: Held::By(_), ..
            }) => return,
            Some(Key {
                held: Held::Shared(shares),
                ..
            }) if hold == Hold::Shared => {
                let mut shares = shares.clone();
                shares.retain(|share| share.0 != owner);
                shares.push((owner, None));
                Held::Shared(shares)
            }
            _ if hold == Hold::Shared => Held::Shared(vec![(owner, None)]),
            _ => Held::By(owner),
        };
        self.set(lock, held, None);
    }

    fn let_go(&mut self) {
        let waits = |owner: &Owner| (self.queue.iter()).any(|waiter| waiter.plea.owner == *owner);
        for key in &mut self.keys {
            match &mut key.held {
                Held::By(owner) if !waits(owner) => key.held = Held::Shared(Vec::new()),
                Held::Shared(shares) => shares.retain(|share| waits(&share.0)),
                Held::By(_) | Held::NoLock => {}
            }
        }
    }

    /// Those who hold what this owner waits for, and those who stand before it.
    fn waits_for(&self, owner: Owner, now: Ms) -> Vec<Owner> {
        let mut found = Vec::new();
        for waiter in &self.queue {
            if waiter.plea.owner != owner || is_up(waiter.until(), now) {
                continue;
            }
            for &lock in &waiter.locks {
                found.extend(self.holders_in_the_way(waiter, lock, now));
                found.extend(self.those_in_the_way(waiter, lock, now));
            }
        }
        found.retain(|&other| other != owner);
        found
    }

    fn holders_in_the_way(&self, waiter: &Waiter, lock: Lock, now: Ms) -> Vec<Owner> {
        let holders = self.holders(lock, now).into_iter().map(|holder| holder.0);
        match self.kind(lock, now) {
            Some(Hold::Shared) if waiter.plea.mode == Mode::Shared => Vec::new(),
            _ => holders.collect(),
        }
    }

    /// Those who stand before it. But when another request of its owner comes before some of them,
    /// its owner comes by a part of the lock before they do: then those are in its way only who do not
    /// go on at once, because they wait for something else too.
    fn those_in_the_way(&self, waiter: &Waiter, lock: Lock, now: Ms) -> Vec<Owner> {
        let mut before = self.those_before(waiter, lock, now);
        let owner = waiter.plea.owner;
        if let Some(first) = before.iter().position(|&other| other == owner) {
            let waits = |owner: Owner| {
                let waits = (self.queue.iter())
                    .filter(|waiter| waiter.plea.owner == owner && !is_up(waiter.until(), now));
                waits.map(|waiter| waiter.locks.len()).sum::<usize>()
            };
            let behind = before.split_off(first);
            before.extend(behind.into_iter().filter(|&other| waits(other) > 1));
        }
        before
    }

    /// Nobody stands before one who holds a part of the lock already.
    fn those_before(&self, waiter: &Waiter, lock: Lock, now: Ms) -> Vec<Owner> {
        if self.hold_of(lock, waiter.plea.owner, now).is_some() {
            return Vec::new();
        }
        (self.queue(lock, now).iter())
            .take_while(|other| other.ticket != waiter.ticket)
            .map(|other| other.plea.owner)
            .collect()
    }

    /// Each of the deadlock waits for the next, in the way that is said.
    fn says_the_truth(&self, owner: Owner, deadlock: &Deadlock, now: Ms) -> Verdict {
        let links = &deadlock.links;
        let begins = (links.first()).is_some_and(|link| *link.owner == *owner.as_bytes());
        ensure(begins, || format!("not {owner}'s deadlock: {deadlock:?}"))?;
        for (link, next) in links.iter().zip(links.iter().cycle().skip(1)) {
            let is_it =
                |lock: &&Lock| (lock.0, lock.1.as_bytes()) == (link.name.db, &*link.name.key);
            let by = |owner: Owner| *owner.as_bytes() == *link.owner;
            let true_for = |waiter: &Waiter| {
                let Some(&lock) = waiter.locks.iter().find(is_it) else {
                    return false;
                };
                let owners = match link.next {
                    // Not in its own way perhaps, but in that of somebody who stands before it.
                    Claim::Holds if !self.those_before(waiter, lock, now).is_empty() => {
                        let holders = self.holders(lock, now).into_iter();
                        holders.map(|holder| holder.0).collect()
                    }
                    Claim::Holds => self.holders_in_the_way(waiter, lock, now),
                    Claim::ComesFirst => self.those_before(waiter, lock, now),
                };
                owners.iter().any(|owner| *owner.as_bytes() == *next.owner)
            };
            let waiters = self.queue.iter().filter(|waiter| by(waiter.plea.owner));
            ensure(waiters.into_iter().any(true_for), || {
                format!("not so: {link:?} then {next:?} in {deadlock:?}")
            })?;
        }
        Ok(())
    }
}
