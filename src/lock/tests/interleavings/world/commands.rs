//! Our own commands.

use super::super::steps::{CHANNELS, Step, Wait, Which, Who};
use super::World;
use crate::lock::fence::Fence;
use crate::lock::log::entry::{LogEntry, Reason};
use crate::lock::tests::model::{Action, Verdict, ensure};
use crate::lock::tests::simulated::{Lock, Owner, Request, told_on};
use crate::lock::{Acquired, Ms, Patience, Refusal};

impl World {
    pub(super) fn acquire(&mut self, step: Step) -> Verdict {
        let Step::Acquire { which, who, wait, blockable, by, ask } = step else {
            return Ok(());
        };
        let locks = self.locks_of(which);
        let owner = self.name_of(who, locks[0]);
        let got = self.asks(&locks, owner, wait, by, ask)?;
        if let (false, Some(Ok(Acquired::Waiting(ticket)))) = (blockable, got) {
            self.server.cannot_block(ticket);
            self.model.cannot_block(ticket)?;
        }
        Ok(())
    }

    pub(super) fn asks(
        &mut self,
        locks: &[Lock],
        owner: Owner,
        wait: Wait,
        by: Option<usize>,
        ask: Request,
    ) -> Verdict<Option<Result<Acquired, Refusal>>> {
        // One that waits can't ask for anything else.
        let by = by.map(|regular| self.regulars[regular]);
        let by = by.filter(|&client| !self.server.is_waiting(client));
        let patience = match wait {
            Wait::Try => Patience::Try,
            Wait::For(ms) => Patience::Until(self.now() + ms),
            Wait::Forever => Patience::Forever,
            Wait::Place(length, channel) => {
                told_on(channel.map(|channel| (CHANNELS[channel], owner)), length)
            }
        };
        let client = by.unwrap_or_else(|| self.server.connect());
        self.request(locks, Request { owner, patience, client, ..ask })
    }

    pub(super) fn request(
        &mut self,
        locks: &[Lock],
        ask: Request,
    ) -> Verdict<Option<Result<Acquired, Refusal>>> {
        // No client can ask while the server keeps askers back.
        let is_denied = self.model.denied == Some(ask.owner);
        if !self.may_write_all(locks) || self.server.keys.keeps_back || is_denied {
            return Ok(None);
        }
        let got = self.server.acquire_all(locks, ask);
        self.counts.granted_at_once += u64::from(matches!(got, Ok(Acquired::Held(_))));
        self.judge(Action::Acquire(locks, &ask, &got))?;
        Ok(Some(got))
    }

    /// In a cluster the keys of a command are of one slot, and these are not.
    fn locks_of(&self, which: Which) -> Vec<Lock> {
        let mut locks = which.locks();
        if self.in_cluster {
            locks.truncate(1);
        }
        locks
    }

    pub(super) fn release(&mut self, which: Which, who: Who) -> Verdict {
        let locks = self.locks_of(which);
        if !self.may_write_all(&locks) {
            return Ok(());
        }
        let owner = self.name_of(who, locks[0]);
        let untold = self.server.untold();
        let got = if let &[lock] = &*locks {
            self.server.release(lock, owner).map(usize::from)
        } else {
            self.server.release_all(&locks, owner)
        };
        self.judge(Action::Release(&locks, owner, &got, &untold))
    }

    pub(super) fn renew(&mut self, which: Which, who: Who, ttl: Ms) -> Verdict {
        let locks = self.locks_of(which);
        if !self.may_write_all(&locks) {
            return Ok(());
        }
        let owner = self.name_of(who, locks[0]);
        let got = self.server.renew_all(&locks, owner, ttl);
        self.judge(Action::Renew(&locks, owner, ttl, &got))
    }

    pub(super) fn break_holds(&mut self, lock: Lock, force: bool) -> Verdict {
        if !self.may_write_all(&[lock]) {
            return Ok(());
        }
        let held: Vec<Option<Fence>> = self.model.holders(lock).map(|hold| hold.fence).collect();
        let got = self.server.break_holds(lock, force);
        self.judge(Action::Break(lock, force, &got))?;
        let ends = got.is_ok_and(|held| held > 0);
        ensure(!ends || self.is_logged(lock, &held), || {
            format!("LOCK.LOG says nothing of {lock:?}")
        })?;
        // That was a command too: what was noted before has been seen to in it.
        self.judge(Action::Other)
    }

    /// Does `LOCK.LOG` say that this lock was broken just now? Or that one of these holds has expired: by
    /// a clock that was set back since.
    fn is_logged(&mut self, lock: Lock, held: &[Option<Fence>]) -> bool {
        let now = self.server.now();
        let is_it = |line: &LogEntry| {
            let key = line.lost.as_ref().and_then(|(about, _)| about.key.whole());
            let is_broken = line.reason == Reason::Broken && line.updated == now;
            // It has been logged before that it was over, or written over: alone, or with others.
            let is_over =
                matches!(line.reason, Reason::Expired | Reason::Overwritten | Reason::Unclaimed);
            let is_one = |fence| held.contains(&fence) || line.count > 1;
            let was_over =
                is_over && line.lost.as_ref().is_some_and(|(_, hold)| is_one(hold.fence));
            (is_broken || was_over) && line.db == Some(lock.0) && key == Some(lock.1.as_bytes())
        };
        self.server.losses(64).iter().any(|(line, _)| is_it(line))
    }

    pub(super) fn guard(&mut self, lock: Lock, who: Who) -> Verdict {
        if !self.may_write_all(&[lock]) {
            return Ok(());
        }
        let owner = self.name_of(who, lock);
        let got = self.server.guard(lock, owner);
        self.counts.guarded += u64::from(got == Ok(true));
        self.judge(Action::Guard(lock, owner, &got))
    }

    pub(super) fn check(&mut self, lock: Lock, who: Who) -> Verdict {
        let owner = self.name_of(who, lock);
        let got = self.server.check(lock, owner);
        self.judge(Action::Check(lock, owner, &got))
    }
}
