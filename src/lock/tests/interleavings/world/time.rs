//! Time passes, and the core does what is due.

use super::super::steps::{LOCKS, Mark};
use super::World;
use crate::lock::tests::model::{Action, Verdict, ensure};
use crate::lock::tests::simulated::Server;
use crate::lock::{Ahead, Ms};

/// Marks further ahead than that are not waited for: a step of the clock may have put it anywhere.
const SOON: Ms = 10_000;

/// How long the core puts off what it can't write.
const PUT_OFF: Ms = 10;

impl World {
    pub(super) fn go(&mut self, to: Ms) {
        // A claim that runs out while nothing may be written is seen to later, and extends all leases.
        if self.server.keys.keeps_back
            || LOCKS.iter().any(|&lock| !self.may_write(lock))
            || !self.late.is_empty()
        {
            self.model.trouble_at(to);
        }
        self.elapsed += to.saturating_sub(self.now());
        self.server.set_clock(to);
        self.latest = self.latest.max(self.wall());
        if self.server.due().is_some_and(|due| due <= to) {
            self.model.is_late();
        }
    }

    /// The server is busy until then.
    pub(super) fn lag_to(&mut self, to: Ms) {
        let due = self.server.due().filter(|&due| due > 0);
        let from = due.map_or(self.now(), |due| due.min(self.now()));
        self.go(to);
        self.model.was_late(from, to);
    }

    /// The wall clock is stepped, and the core hears of it.
    pub(super) fn step_clock(&mut self, by: Ahead) -> Verdict {
        if by < 0 {
            self.counts.steps_back += 1;
        } else {
            self.counts.steps_forward += 1;
        }
        self.model.stepped(by);
        self.server.step(by);
        self.latest = self.latest.max(self.wall());
        // The other servers' clocks are not stepped: so they are too far from ours.
        self.model.elsewhere.clear();
        self.away.values_mut().for_each(|since| *since = Ms::MAX);
        self.judge(Action::Other)
    }

    pub(super) fn loop_turn(&mut self) -> Verdict {
        self.turn()?;
        if self.server.due().is_some_and(|due| due <= self.now()) {
            self.tick()?;
        }
        Ok(())
    }

    pub(super) fn turn(&mut self) -> Verdict {
        self.server.turn();
        self.judge(Action::Other)
    }

    /// The server does all that is due on time, and nothing too late.
    pub(super) fn pass_to(&mut self, to: Ms) -> Verdict {
        self.turn()?;
        // While nothing may be written it asks every ten milliseconds, for as long as a step of the clock.
        for _ in 0..10_000 {
            let Some(due) = self.server.due().filter(|&due| due <= to) else {
                self.go(to);
                return self.judge(Action::Other);
            };
            if due > self.now() {
                self.go(due - 1);
                self.judge(Action::Other)?;
                self.go(due);
            }
            self.turn()?;
            self.tick()?;
        }
        Err("it does not come to rest".to_owned())
    }

    pub(super) fn pass_to_mark(
        &mut self,
        mark: Mark,
        (before, after): (Ms, Ms),
        lag: bool,
    ) -> Verdict {
        let at = match mark {
            Mark::Deadline(lock) => self.model.holders(lock).filter_map(|hold| hold.until).min(),
            Mark::Lease(n) => self.nth_place(n).map(|(_, place)| place.kept),
            Mark::Claim(n) => self.nth_place(n).map(|(_, place)| place.claim_ends),
            Mark::TimeUp(n) => {
                let queue = &self.model.queue;
                queue.get(n % queue.len().max(1)).and_then(|waiter| waiter.until())
            }
        };
        let soon = self.now()..=self.now() + SOON;
        match at.map(|at| (at + after).saturating_sub(before)).filter(|at| soon.contains(at)) {
            Some(at) if lag => self.lag_to(at),
            Some(at) => self.pass_to(at)?,
            None => {}
        }
        Ok(())
    }

    /// The core's own turn. Afterwards it has done all that was due, but what it could not write.
    pub(super) fn tick(&mut self) -> Verdict {
        if self.server.keys.keeps_back {
            self.model.at(self.now(), self.elapsed);
            self.model.places_go_on();
        }
        self.does_what_is_due(Server::tick)?;
        let due = self.server.locks.next_due();
        // Messages that it has given rise to are published in the next.
        let is_done = self.is_spent
            || self.server.locks.waiting.places.work() > 0
            || due.is_none_or(|due| due > self.now());
        ensure(is_done, || format!("due again at {due:?}"))
    }

    /// A turn at the end of what the server just did, perhaps in the middle of a walk through its keys. It writes no key
    /// again that went too early, so what becomes of such a lock may have to wait for a later tick.
    pub(super) fn job(&mut self) -> Verdict {
        for lock in LOCKS {
            let keys = &self.server.keys;
            let is_gone = keys.get(lock).is_none() || keys.is_expired(lock);
            if is_gone && self.model.holders(lock).next().is_some() {
                let late = self.late.entry(lock).or_default();
                *late = (*late).max(self.elapsed + PUT_OFF);
            }
        }
        self.does_what_is_due(Server::job)
    }

    fn does_what_is_due(&mut self, does: fn(&mut Server)) -> Verdict {
        for lock in LOCKS {
            if !self.may_write(lock) {
                self.late.insert(lock, Ms::MAX);
                self.counts.refused += 1;
            }
        }
        does(&mut self.server);
        self.model.ticked = self.now();
        self.judge(Action::Other)
    }
}
