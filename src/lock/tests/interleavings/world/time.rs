//! Time passes, and the core does what is due.

use super::super::inside;
use super::super::steps::{LOCKS, Mark};
use super::{GRACE, World};
use crate::lock::tests::model::{Verdict, ensure, is_up};
use crate::lock::tests::simulated::Lock;
use crate::lock::{Ahead, Ms};

/// Further than that ahead nobody waits for a mark: a step of the clock may have put it anywhere.
const SOON: Ms = 10_000;

impl World {
    pub(super) fn go(&mut self, to: Ms) {
        self.elapsed += to.saturating_sub(self.now());
        self.server.set_clock(to);
        self.latest = self.latest.max(self.wall());
    }

    /// The wall clock is stepped, and the core hears of it.
    pub(super) fn step_clock(&mut self, by: Ahead) -> Verdict {
        if by < 0 {
            self.counts.steps_back += 1;
        } else {
            self.counts.steps_forward += 1;
        }
        let (now, locks) = (self.now(), &self.server.locks);
        let before = LOCKS.map(|lock| self.model.holders(lock, now).len());
        // One that was over may stand there still, and be remembered no more: it is nobody's of ours.
        for lock in LOCKS {
            let key = inside::key_by_wall(&self.server, lock);
            let holders = self.model.holders(lock, now);
            if let Some(key) = key.filter(|_| holders.is_empty())
                && !inside::remembers(locks, lock)
            {
                self.model.touched(lock, Some(key));
            }
        }
        self.model.step(by);
        // The core may have seen those end that do not by now.
        for (lock, before) in LOCKS.into_iter().zip(before) {
            if self.model.holders(lock, now).len() > before {
                (self.model.grants).retain(|grant| {
                    grant.lock != lock || inside::knows(locks, lock, grant.owner, grant.hold)
                });
            }
        }
        self.server.step(by);
        self.latest = self.latest.max(self.wall());
        // The other servers' clocks are not stepped: so they are too far from ours.
        self.model.elsewhere.clear();
        self.away.values_mut().for_each(|since| *since = Ms::MAX);
        self.judge(|_, _, _| Ok(()))
    }

    pub(super) fn loop_turn(&mut self) -> Verdict {
        self.turn()?;
        if self.server.due().is_some_and(|due| due <= self.now()) {
            self.tick()?;
        }
        self.is_idle_at(self.now())
    }

    pub(super) fn turn(&mut self) -> Verdict {
        self.server.turn();
        self.judge(|_, _, _| Ok(()))
    }

    pub(super) fn pass_to(&mut self, to: Ms) -> Verdict {
        self.turn()?;
        // While nothing may be written it asks every ten milliseconds, for as long as a step of the clock.
        for _ in 0..10_000 {
            let Some(due) = self.server.due().filter(|&due| due <= to) else {
                self.is_idle_at(to)?;
                self.go(to);
                return Ok(());
            };
            if due > self.now() {
                self.is_idle_at(due - 1)?;
                self.go(due);
            }
            self.turn()?;
            self.tick()?;
            self.agree()?;
        }
        Err(format!(
            "it does not come to rest: {}",
            inside::what_is_due(&self.server.locks)
        ))
    }

    pub(super) fn pass_to_mark(&mut self, mark: Mark, after: Ms, lag: bool) -> Verdict {
        let at = match mark {
            Mark::Deadline(lock) => self
                .model
                .holders(lock, self.now())
                .into_iter()
                .filter_map(|holder| holder.1)
                .min(),
            Mark::TimeUp(n) => {
                let queue = &self.model.queue;
                queue
                    .get(n % queue.len().max(1))
                    .and_then(|waiter| waiter.until())
            }
        };
        let soon = self.now()..=self.now() + SOON;
        match at.map(|at| at + after).filter(|at| soon.contains(at)) {
            Some(at) if lag => self.go(at),
            Some(at) => self.pass_to(at)?,
            None => {}
        }
        Ok(())
    }

    /// The core's own turn.
    pub(super) fn tick(&mut self) -> Verdict {
        for lock in LOCKS {
            if !self.may_write(lock) {
                self.late.insert(lock, Ms::MAX);
                self.counts.refused += 1;
            }
        }
        self.model.begin();
        self.server.tick();
        self.judge(|model, now, seen| model.tick(&LOCKS, now, seen))?;
        let (locks, now) = (&self.server.locks, self.now());
        let due = locks.next_due();
        ensure(due.is_none_or(|due| due > now), || {
            format!("due again at {due:?}: {}", inside::what_is_due(locks))
        })?;
        if self.late.is_empty() {
            ensure(locks.noted.is_empty() && locks.returns.is_empty(), || {
                format!("left undone: {}", inside::what_is_due(locks))
            })?;
        }
        let nobody = self.model.queue.is_empty()
            && locks.returns.is_empty()
            && locks.backlog.cuts.is_empty()
            && !locks.reserves();
        if !nobody {
            self.busy_until = self.elapsed;
        }
        // What was put off before may be left to drop for a moment.
        let quiet = self.elapsed > self.busy_until + GRACE;
        if nobody && (self.late.is_empty() || quiet) {
            ensure(due.is_none(), || {
                format!("a timer for nothing: {}", inside::what_is_due(locks))
            })?;
        }
        Ok(())
    }

    /// With no tick due, nothing must be left to do.
    pub(super) fn is_idle_at(&mut self, at: Ms) -> Verdict {
        let queue = &self.model.queue;
        let over = queue.iter().find(|waiter| is_up(waiter.until(), at));
        ensure(over.is_none(), || {
            format!("not told that its time was up: {over:?}")
        })?;
        let elapsed = self.elapsed + at.saturating_sub(self.now());
        let had_to = |lock: &Lock| {
            let late = |&until: &Ms| elapsed <= until;
            self.may_be_looked_at(*lock) && !self.late.get(lock).is_some_and(late)
        };
        for waiter in queue
            .iter()
            .filter(|waiter| waiter.locks.iter().all(had_to))
        {
            ensure(self.model.fits_of(waiter, at).is_none(), || {
                format!("could have it all at {at}: {waiter:?}")
            })?;
        }
        for grant in self.model.grants.iter().filter(|grant| had_to(&grant.lock)) {
            let held = self.model.hold_of(grant.lock, grant.owner, at);
            let held = held.is_some_and(|held| held.0 == grant.hold);
            let gone = grant.is_unheard() || grant.is_closed();
            ensure(!(held && gone), || {
                format!("to be given back at {at}: {grant:?}")
            })?;
        }
        Ok(())
    }
}
