//! Our own commands, and what they should answer.

use super::{Fit, Held, Model, Seen, Verdict, Waiter, ensure};
use crate::lock::tests::simulated::{Lock, Owner, Plea};
use crate::lock::{Acquired, Hold, Mode, Ms, NotALock, Patience, Refusal};

impl Model {
    pub fn acquire(
        &mut self,
        locks: &[Lock],
        plea: &Plea,
        now: Ms,
        seen: &Seen<'_>,
        got: &Result<Acquired, Refusal>,
    ) -> Verdict {
        self.settle_lines(locks, now, seen)?;
        let fits: Vec<(Lock, Fit)> = (locks.iter())
            .map(|&lock| {
                let in_turn = self.line(lock, now).is_empty();
                (lock, self.fit(lock, plea.owner, plea.mode, in_turn, now))
            })
            .collect();
        let no_lock = locks.iter().any(|&lock| self.is_no_lock(lock, now));
        let open = fits.iter().all(|(_, fit)| *fit != Fit::Shut);
        match got {
            Err(Refusal::NotALock(_)) if no_lock => Ok(()),
            Ok(Acquired::Held(fence)) if open && !no_lock => {
                self.take(&fits, plea, *fence, None, now)?;
                self.settle_lines(locks, now, seen)
            }
            Ok(Acquired::Busy) if !open && !no_lock && plea.patience == Patience::Try => {
                self.count_shut(&fits, plea, now);
                Ok(())
            }
            Ok(Acquired::Waiting(ticket))
                if !open && !no_lock && plea.patience != Patience::Try =>
            {
                ensure(*ticket > self.last_ticket, || {
                    format!("ticket {ticket} after {}", self.last_ticket)
                })?;
                self.last_ticket = *ticket;
                self.count_shut(&fits, plea, now);
                self.push(*ticket, locks, plea);
                self.is_no_deadlock(plea, now, seen)
            }
            Err(Refusal::Deadlock(circle))
                if !open && !no_lock && plea.patience != Patience::Try =>
            {
                self.push(self.last_ticket + 1, locks, plea);
                let verdict = self.is_deadlock(plea, circle, now, seen);
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

    fn push(&mut self, ticket: u64, locks: &[Lock], plea: &Plea) {
        self.queue.push(Waiter {
            ticket,
            locks: locks.to_vec(),
            plea: *plea,
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
        self.settle_lines(&[lock], now, seen)?;
        let held = self.hold_of(lock, owner, now).is_some();
        let right = if self.is_no_lock(lock, now) {
            Err(NotALock)
        } else {
            Ok(held)
        };
        ensure(*got == right, || {
            format!("{owner} releases {lock:?}: {got:?}, not {right:?}")
        })?;
        if held {
            self.end_hold(lock, owner, now);
            self.settle_lines(&[lock], now, seen)?;
        }
        Ok(())
    }

    pub fn release_all(
        &mut self,
        locks: &[Lock],
        owner: Owner,
        now: Ms,
        seen: &Seen<'_>,
        got: &Result<usize, NotALock>,
    ) -> Verdict {
        if locks.iter().any(|&lock| self.is_no_lock(lock, now)) {
            return ensure(got.is_err(), || format!("{locks:?} released: {got:?}"));
        }
        self.settle_lines(locks, now, seen)?;
        let mut released = 0;
        for &lock in locks {
            self.settle_lines(&[lock], now, seen)?;
            if self.hold_of(lock, owner, now).is_some() {
                released += 1;
                self.end_hold(lock, owner, now);
                self.settle_lines(&[lock], now, seen)?;
            }
        }
        ensure(*got == Ok(released), || {
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
        self.settle_lines(locks, now, seen)?;
        let holds: Option<Vec<Hold>> = (locks.iter())
            .map(|&lock| Some(self.hold_of(lock, owner, now)?.0))
            .collect();
        let right = if locks.iter().any(|&lock| self.is_no_lock(lock, now)) {
            Err(NotALock)
        } else {
            Ok(holds.is_some())
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
        force: bool,
        now: Ms,
        seen: &Seen<'_>,
        got: &Result<usize, NotALock>,
    ) -> Verdict {
        self.settle_lines(&[lock], now, seen)?;
        let holders = self.holders(lock, now);
        let spared = match (self.kind(lock, now), holders.first()) {
            (Some(Hold::Exclusive), Some(&(owner, None))) => {
                !force && self.grant_of(lock, owner, Hold::Exclusive).is_none()
            }
            _ => false,
        };
        let right = match holders.len() {
            _ if self.is_no_lock(lock, now) => Err(NotALock),
            _ if spared => Ok(0),
            count => Ok(count),
        };
        ensure(*got == right, || {
            format!("{lock:?} is broken: {got:?}, not {right:?}")
        })?;
        if right.is_ok_and(|count| count > 0) {
            self.tally.broken += 1;
            self.remove(lock);
            self.grants.retain(|grant| grant.lock != lock);
            self.settle_lines(&[lock], now, seen)?;
        }
        Ok(())
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
