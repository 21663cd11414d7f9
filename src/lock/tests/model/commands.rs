//! Our own commands, and what they should answer.

use super::{Fit, Held, Key, Model, Seen, Verdict, Waiter, ensure};
use crate::lock::tests::simulated::{Lock, Owner, Plea};
use crate::lock::{Acquired, Break, Hold, Mode, Ms, NotALock, Patience, Refusal, Ticket};

impl Model {
    pub fn acquire(
        &mut self,
        locks: &[Lock],
        plea: &Plea,
        now: Ms,
        seen: &Seen<'_>,
        got: &Result<Acquired, Refusal>,
    ) -> Verdict {
        self.settle_before(locks, now, seen)?;
        let fits: Vec<(Lock, Fit)> = (locks.iter())
            .map(|&lock| {
                let in_turn = self.queue(lock, now).is_empty();
                (lock, self.fit(lock, plea.owner, plea.mode, in_turn, now))
            })
            .collect();
        let no_lock = locks.iter().any(|&lock| self.is_no_lock(lock, now));
        let open = fits.iter().all(|(_, fit)| *fit != Fit::Shut);
        // Shares that are over may count among those of a crowd for a moment, but none that is not.
        let counts_all = open && locks.iter().any(|&lock| (seen.counts_all)(lock));
        let open = open && (!counts_all || matches!(got, Ok(Acquired::Held(_))));
        let shut = !open && !no_lock;
        // Nothing comes of waiting for more than a share that an operator is ending.
        let breaking = |&lock: &Lock| {
            let held = self.hold_of(lock, plea.owner, now).map(|held| held.0);
            plea.mode == Mode::Exclusive
                && held == Some(Hold::Shared)
                && self.is_breaking(lock, plea.owner, Hold::Shared)
        };
        let waits =
            plea.patience != Patience::Try && !self.limits.drain && !locks.iter().any(breaking);
        let full = shut && waits && self.is_full(locks, seen);
        let waits = waits && !full;
        if shut {
            self.give_ends_to_orphans(&fits, now);
        }
        match got {
            Err(Refusal::NotALock(_)) if no_lock => Ok(()),
            Err(Refusal::QueueFull) if full => {
                self.tally.full += 1;
                Ok(())
            }
            Ok(Acquired::Held(fence)) if open && !no_lock => {
                self.take(&fits, plea, *fence, None, now)?;
                self.settle_lines(locks, now, seen)
            }
            Ok(Acquired::Busy) if shut && !waits && !full => {
                self.count_shut(&fits, plea, now);
                Ok(())
            }
            Ok(Acquired::Waiting(ticket)) if shut && waits => {
                ensure(*ticket > self.last_ticket, || {
                    format!("ticket {ticket} after {}", self.last_ticket)
                })?;
                self.last_ticket = *ticket;
                self.count_shut(&fits, plea, now);
                self.push(*ticket, locks, plea);
                self.is_no_deadlock(plea, now, seen)
            }
            Err(Refusal::Deadlock(deadlock)) if shut && waits => {
                self.push(self.last_ticket + 1, locks, plea);
                let verdict = self.is_deadlock(plea, deadlock, now, seen);
                self.queue.pop();
                let upgrade = (locks.iter())
                    .any(|&lock| self.hold_of(lock, plea.owner, now).is_some())
                    && plea.mode == Mode::Exclusive
                    && locks.len() == 1;
                self.tally.upgrades_refused += u64::from(upgrade);
                verdict
            }
            got => Err(format!(
                "{} wants {locks:?}, {:?}; {fits:?}: {got:?}",
                plea.owner, plea.mode
            )),
        }
    }

    /// Is there no room in the queues? Those whose time is up count, until that has been seen.
    fn is_full(&self, locks: &[Lock], seen: &Seen<'_>) -> bool {
        let exceeds = |places: usize, most: u64| most > 0 && places as u64 > most;
        let waiters: Vec<&Waiter> = (self.queue.iter())
            .filter(|waiter| !seen.timed_out.contains(&waiter.ticket))
            .collect();
        let waiting_for = |lock: &Lock| {
            let waiting = waiters.iter().filter(|waiter| waiter.locks.contains(lock));
            waiting.count()
        };
        let taken: usize = waiters.iter().map(|waiter| waiter.locks.len()).sum();
        exceeds(taken + locks.len(), self.limits.max_waiters_total)
            || (locks.iter()).any(|lock| exceeds(waiting_for(lock) + 1, self.limits.max_waiters))
    }

    fn give_ends_to_orphans(&mut self, fits: &[(Lock, Fit)], now: Ms) {
        let shut = fits.iter().filter(|(_, fit)| *fit == Fit::Shut);
        shut.for_each(|&(lock, _)| self.give_end_to_orphan(lock, now));
    }

    /// A string without an end that somebody wants as a lock is given one, if that has been set.
    pub(super) fn give_end_to_orphan(&mut self, lock: Lock, now: Ms) {
        let ttl = self.limits.orphan_ttl;
        let is_orphan = (self.look(lock, now))
            .is_some_and(|key| matches!(key.held, Held::By(_)) && key.deadline.is_none());
        if is_orphan && ttl > 0 {
            self.set_deadline(lock, Some(now + ttl));
            self.tally.adopted_orphans += 1;
        }
    }

    /// The core does so whenever it comes by and somebody waits.
    pub fn follow_ends_of_orphans(&mut self, lock: Lock, deadline: Option<Ms>, now: Ms) {
        let waited_for = self.queue.iter().any(|waiter| waiter.locks.contains(&lock));
        if waited_for && deadline == Some(now + self.limits.orphan_ttl) {
            self.give_end_to_orphan(lock, now);
        }
    }

    fn push(&mut self, ticket: u64, locks: &[Lock], plea: &Plea) {
        self.queue.push(Waiter {
            ticket,
            locks: locks.to_vec(),
            plea: *plea,
            barred: false,
        });
    }

    fn count_shut(&mut self, fits: &[(Lock, Fit)], plea: &Plea, now: Ms) {
        let waits = plea.patience != Patience::Try;
        self.tally.several_waited += u64::from(waits && fits.len() > 1);
        let full = |lock: Lock| {
            let others = self.holders(lock, now).len() as u64;
            self.is_shared(lock, now) && matches!(plea.mode, Mode::Limit(most) if others >= most)
        };
        let full = fits.iter().any(|&(lock, _)| full(lock));
        self.tally.limited += u64::from(full);
    }

    pub fn release(
        &mut self,
        lock: Lock,
        owner: Owner,
        now: Ms,
        seen: &Seen<'_>,
        got: &Result<bool, NotALock>,
    ) -> Verdict {
        self.withdraw(lock, owner);
        self.settle_before(&[lock], now, seen)?;
        let held = self.hold_of(lock, owner, now).map(|held| held.0);
        let right = if self.is_no_lock(lock, now) {
            Err(NotALock)
        } else {
            Ok(held.is_some_and(|hold| self.is_told(lock, owner, hold)))
        };
        let either = held.is_some_and(|hold| self.has_kept(lock, owner, hold));
        ensure(*got == right || (either && got.is_ok()), || {
            format!("{owner} releases {lock:?}: {got:?}, not {right:?}")
        })?;
        if held.is_some() {
            self.end_hold(lock, owner, now);
            self.settle_lines(&[lock], now, seen)?;
        }
        Ok(())
    }

    /// All that this owner has asked of this lock ends: what waits, and what it has been granted while
    /// nobody has been told.
    fn withdraw(&mut self, lock: Lock, owner: Owner) {
        let is_its = |waiter: &&Waiter| waiter.plea.owner == owner && waiter.locks.contains(&lock);
        let tickets = |waiters: &[Waiter]| -> Vec<Ticket> {
            let its = waiters.iter().filter(is_its);
            its.map(|waiter| waiter.ticket).collect()
        };
        let (waiting, mut granted) = (tickets(&self.queue), tickets(&self.served));
        granted.retain(|ticket| self.untold.contains(ticket));
        self.tally.withdrawn += waiting.len() as u64;
        self.tally.withdrawn_late += granted.len() as u64;
        for &ticket in waiting.iter().chain(&granted) {
            self.ended(ticket, false);
        }
        self.withdrawn.extend(waiting);
    }

    /// Has this owner been told that it has this hold, or that it has had less?
    fn is_told(&self, lock: Lock, owner: Owner, hold: Hold) -> bool {
        let grant = self.grant_of(lock, owner, hold);
        grant.is_none_or(|grant| grant.told || !grant.under_way.is_empty() || grant.keeps.is_some())
    }

    /// Has it been told that it has had less, as long as the core has not come to the end of that?
    fn has_kept(&self, lock: Lock, owner: Owner, hold: Hold) -> bool {
        let grant = self.grant_of(lock, owner, hold);
        grant.is_some_and(|grant| grant.has_kept) && !self.is_told(lock, owner, hold)
    }

    pub fn release_all(
        &mut self,
        locks: &[Lock],
        owner: Owner,
        now: Ms,
        seen: &Seen<'_>,
        got: &Result<usize, NotALock>,
    ) -> Verdict {
        for &lock in locks {
            self.withdraw(lock, owner);
        }
        if locks.iter().any(|&lock| self.is_no_lock(lock, now)) {
            return ensure(got.is_err(), || format!("{locks:?} released: {got:?}"));
        }
        self.settle_before(locks, now, seen)?;
        let (mut released, mut either) = (0, 0);
        for &lock in locks {
            self.settle_lines(&[lock], now, seen)?;
            if let Some((hold, _)) = self.hold_of(lock, owner, now) {
                released += usize::from(self.is_told(lock, owner, hold));
                either += usize::from(self.has_kept(lock, owner, hold));
                self.end_hold(lock, owner, now);
                self.settle_lines(&[lock], now, seen)?;
            }
        }
        let is_right = |&got: &usize| (released..=released + either).contains(&got);
        ensure(got.as_ref().is_ok_and(is_right), || {
            format!("{owner} releases {locks:?}: {got:?}, not {released}")
        })
    }

    pub fn renew(
        &mut self,
        locks: &[Lock],
        (owner, ttl): (Owner, Ms),
        now: Ms,
        seen: &Seen<'_>,
        got: &Result<bool, NotALock>,
    ) -> Verdict {
        self.settle_before(locks, now, seen)?;
        let holds: Option<Vec<Hold>> = (locks.iter())
            .map(|&lock| Some(self.hold_of(lock, owner, now)?.0))
            .collect();
        // What an operator is ending is not renewed.
        let lasts = (locks.iter().zip(holds.iter().flatten()))
            .all(|(&lock, &hold)| !self.is_breaking(lock, owner, hold));
        let right = if locks.iter().any(|&lock| self.is_no_lock(lock, now)) {
            Err(NotALock)
        } else {
            Ok(holds.is_some() && lasts)
        };
        ensure(*got == right, || {
            format!("{owner} renews {locks:?}: {got:?}, not {right:?}")
        })?;
        if *got == Ok(true) {
            for (&lock, hold) in locks.iter().zip(holds.unwrap_or_default()) {
                self.set_end(lock, owner, hold, now + ttl);
                self.tell(lock, owner, hold);
            }
        }
        Ok(())
    }

    /// What has no end, and was not granted here, may be anything: it is spared, if nobody insists.
    pub fn break_holds(
        &mut self,
        lock: Lock,
        wanted: Break,
        now: Ms,
        seen: &Seen<'_>,
        got: &Result<usize, NotALock>,
    ) -> Verdict {
        self.settle_before(&[lock], now, seen)?;
        let holders = self.holders(lock, now);
        let spared = match (self.kind(lock, now), holders.first()) {
            (Some(Hold::Exclusive), Some(&(owner, None))) => {
                let grant = self.grant_of(lock, owner, Hold::Exclusive);
                !wanted.force && grant.is_none_or(|grant| grant.fence.is_none())
            }
            _ => false,
        };
        let right = match holders.len() {
            _ if self.is_no_lock(lock, now) => Err(NotALock),
            _ if spared => Ok(0),
            count => Ok(count),
        };
        // Of a crowd those may count whose shares are over.
        let over = self
            .keys
            .iter()
            .find(|key| key.lock == lock)
            .map(Key::shares);
        let most = over.map_or(0, |shares| shares.len());
        let counts_all = (seen.counts_all)(lock)
            && matches!((got, &right), (Ok(got), &Ok(right)) if (right..=most).contains(got));
        ensure(*got == right || counts_all, || {
            format!("{lock:?} is broken: {got:?}, not {right:?}")
        })?;
        if !got.as_ref().is_ok_and(|&count| count > 0) {
            return Ok(());
        }
        if wanted.grace == 0 {
            self.tally.broken += 1;
            self.remove(lock);
            self.grants.retain(|grant| grant.lock != lock);
        } else {
            self.tally.graces += 1;
            self.end_within(lock, now + wanted.grace, now);
        }
        self.settle_lines(&[lock], now, seen)
    }

    /// No hold of this lock lasts longer, whatever its owner does.
    fn end_within(&mut self, lock: Lock, last: Ms, now: Ms) {
        let Some(hold) = self.kind(lock, now) else {
            return;
        };
        if hold == Hold::Shared {
            self.drop_over(lock, now);
            let owners = self.holders(lock, now).into_iter().map(|holder| holder.0);
            let owners = owners.collect();
            return self.cut(lock, owners, last);
        }
        for (owner, until) in self.holders(lock, now) {
            if until.is_none_or(|until| until > last) {
                self.set_end(lock, owner, hold, last);
            }
            self.get_to_know(lock, owner, hold).breaking = true;
        }
    }

    /// A command may be run under this lock, if its owner holds it.
    pub fn guard(
        &mut self,
        lock: Lock,
        owner: Owner,
        now: Ms,
        seen: &Seen<'_>,
        got: &Result<bool, NotALock>,
    ) -> Verdict {
        self.settle_before(&[lock], now, seen)?;
        let hold = self.hold_of(lock, owner, now).map(|held| held.0);
        let right = if self.is_no_lock(lock, now) {
            Err(NotALock)
        } else {
            Ok(hold.is_some())
        };
        if let Some(hold) = hold {
            self.tell(lock, owner, hold);
        }
        ensure(*got == right, || {
            format!("{owner} guards {lock:?}: {got:?}, not {right:?}")
        })
    }

    /// The kind of hold that a lock is under.
    pub fn kind(&self, lock: Lock, now: Ms) -> Option<Hold> {
        let held = !self.holders(lock, now).is_empty();
        match self.look(lock, now).filter(|_| held)?.held {
            Held::By(_) => Some(Hold::Exclusive),
            Held::Shared(_) => Some(Hold::Shared),
            Held::NoLock => None,
        }
    }
}
