//! Is a request refused as a deadlock only if it is one, and always if it surely is? What lies between is
//! judged by the histories of `orders`, which try every order of release.

use super::{Model, Verdict, Waiter, ensure};
use crate::lock::deadlock::{Claim, Deadlock};
use crate::lock::tests::simulated::{Lock, Owner, Request, name};
use crate::lock::{Hold as How, Mode, Ticket};

impl Model {
    /// Each of those who are named waits for the next, by what is known of them. The request stands there among all.
    pub(super) fn judge_deadlock(
        &self,
        locks: &[Lock],
        ask: &Request,
        since: Ticket,
        found: Option<&Deadlock>,
    ) -> Verdict {
        // What others have done elsewhere may not have been looked at.
        if !self.was_resting {
            return Ok(());
        }
        let asks = Waiter {
            ticket: Ticket::MAX,
            since,
            locks: locks.to_vec(),
            ask: *ask,
            barred: false,
            place: None,
        };
        let Some(found) = found else {
            let circle = self.leads_back(&asks, &asks, &mut Vec::new());
            return ensure(!circle, || format!("it waits for itself: {asks:?}"));
        };
        let waiting: Vec<&Waiter> = self.queue.iter().chain([&asks]).collect();
        let waits = |owner: &[u8], lock: Lock| {
            let mut waiting = waiting.iter();
            waiting.any(|one| one.ask.owner.as_bytes() == owner && one.locks.contains(&lock))
        };
        let next = found.links.iter().cycle().skip(1);
        for (link, next) in found.links.iter().zip(next) {
            let known = crate::lock::tests::interleavings::steps::LOCKS;
            let lock = *known.iter().find(|&&lock| name(lock) == link.name.borrow()).unwrap();
            let is_so = waits(&link.owner, lock)
                && match link.next {
                    Claim::Holds => {
                        (self.holders(lock)).any(|hold| hold.owner.as_bytes() == &*next.owner)
                    }
                    Claim::ComesFirst => waits(&next.owner, lock),
                };
            ensure(is_so, || format!("{link:?} of {found:?} is not so"))?;
        }
        ensure(*found.links[0].owner == *ask.owner.as_bytes(), || {
            format!("{found:?} is not of {}", ask.owner)
        })?;
        // Of several requests of one owner one may be granted, and what comes of that is another question.
        let is_only_one = |one: &&Waiter| {
            let mut its = waiting.iter();
            its.all(|other| other.ask.owner != one.ask.owner || other.ticket == one.ticket)
        };
        // Of more than may share a lock no client is known, not even the one that asks.
        let is_known = !locks.iter().any(|&lock| self.are_too_many(lock));
        let comes_apart = is_known
            && waiting.iter().all(is_only_one)
            && !self.is_stuck(&asks, true)
            && !self.is_stuck(&asks, false);
        ensure(!comes_apart, || format!("{found:?} comes apart when all let go: {asks:?}"))
    }

    /// If all let go who wait for nothing, each as soon as it does or all in turns, does it wait indefinitely?
    fn is_stuck(&self, asks: &Waiter, soon: bool) -> bool {
        let mut future = self.clone();
        future.quarantined_until = None;
        future.no_locks.clear();
        future.queue.retain(|one| self.lives(one));
        future.queue.push(asks.clone());
        for hold in &mut future.holds {
            (hold.told, hold.closed, hold.is_loose) = (true, false, false);
            hold.is_early = false;
        }
        loop {
            let before = future.queue.len();
            future.all_let_go();
            while future.grants_one() {
                if soon {
                    future.all_let_go();
                }
            }
            if future.queue.len() == before {
                return future.queue.iter().any(|one| one.ticket == asks.ticket);
            }
        }
    }

    fn all_let_go(&mut self) {
        let waits = |owner: Owner| self.queue.iter().any(|one| one.ask.owner == owner);
        self.holds.retain(|hold| waits(hold.owner));
    }

    fn grants_one(&mut self) -> bool {
        let is_open = |one: &Waiter| {
            let why = self.in_the_way(&one.locks, &one.ask, Some(one.since), true);
            why.is_none()
        };
        let Some(at) = self.queue.iter().position(is_open) else {
            return false;
        };
        let one = self.queue.remove(at);
        for &lock in &one.locks {
            self.take(lock, &one.ask, 0, None);
        }
        true
    }

    /// Does it surely wait for a client who waits for the one who asks?
    fn leads_back(&self, from: &Waiter, asks: &Waiter, seen: &mut Vec<Owner>) -> bool {
        for owner in self.surely_waits_for(from) {
            if owner == asks.ask.owner {
                return true;
            }
            if seen.contains(&owner) {
                continue;
            }
            seen.push(owner);
            // In each database an owner waits by one request, and each is searched by itself.
            let is_its =
                |one: &&Waiter| one.ask.owner == owner && one.locks[0].0 == asks.locks[0].0;
            let mut waits = self.queue.iter().filter(is_its);
            if let (Some(one), None) = (waits.next(), waits.next())
                && self.lives(one)
                && self.leads_back(one, asks, seen)
            {
                return true;
            }
        }
        false
    }

    fn surely_waits_for(&self, waiter: &Waiter) -> Vec<Owner> {
        let mut found = Vec::new();
        if self.queue.iter().any(|one| {
            one.ask.owner == waiter.ask.owner
                && one.ticket != waiter.ticket
                && one.locks[0].0 == waiter.locks[0].0
        }) {
            return found;
        }
        for &lock in &waiter.locks {
            let wants_alone = waiter.ask.mode == Mode::Exclusive;
            let own = self.hold(lock, waiter.ask.owner);
            if own.is_some_and(|own| own.covers(waiter.ask.mode)) || self.is_no_lock(lock) {
                continue;
            }
            let holders = self.holders(lock).filter(|hold| {
                // Of more than may share it no client is known.
                let is_unclear = hold.may_go() || hold.is_loose || self.are_too_many(lock);
                (wants_alone || hold.how == How::Exclusive) && !is_unclear
            });
            found.extend(holders.map(|hold| hold.owner));
            let before = self.queue.iter().filter(|one| {
                let conflicts = wants_alone || one.ask.mode == Mode::Exclusive;
                // Those with FAIR are passed over where they have no room.
                let conflicts = conflicts && !one.ask.mode.is_fair();
                one.since < waiter.since
                    && one.locks.contains(&lock)
                    && self.lives(one)
                    && conflicts
            });
            found.extend(before.map(|one| one.ask.owner));
        }
        found.retain(|&owner| owner != waiter.ask.owner);
        found
    }
}
