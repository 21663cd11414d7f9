//! Our own commands, and what they should answer.

use super::super::steps::{Step, Wait, Which, Who};
use super::World;
use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::{Lock, Plea};
use crate::lock::{Acquired, Break, Left, Ms, NotALock, Patience, Report};

impl World {
    pub(super) fn acquire(&mut self, step: Step) -> Verdict {
        let Step::Acquire {
            which,
            who,
            ttl,
            mode,
            wait,
            blockable,
            by,
            session,
        } = step
        else {
            return Ok(());
        };
        let locks = self.locks_of(which);
        if !self.may_write_all(&locks) {
            return Ok(());
        }
        // One that waits can't ask for anything else.
        let by = by.map(|regular| self.regulars[regular]);
        let by = by.filter(|&client| !self.server.is_waiting(client));
        let plea = Plea {
            owner: self.name_of(who, locks[0]),
            ttl,
            mode,
            patience: match wait {
                Wait::Try => Patience::Try,
                Wait::For(ms) => Patience::Until(self.now() + ms),
                Wait::Forever => Patience::Forever,
            },
            client: by.unwrap_or_else(|| self.server.connect()),
            session,
        };
        let got = self.server.acquire_all(&locks, plea);
        self.counts.granted_at_once += u64::from(matches!(got, Ok(Acquired::Held(_))));
        self.judge(|model, now, seen| model.acquire(&locks, &plea, now, seen, &got))?;
        if let (false, Ok(Acquired::Waiting(ticket))) = (blockable, got) {
            self.server.cannot_block(ticket);
            self.model.leave(ticket)?;
        }
        Ok(())
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
        self.model.untold = self.server.untold();
        if let &[lock] = &*locks {
            let got = self.server.release(lock, owner);
            return self.judge(|model, now, seen| model.release(lock, owner, now, seen, &got));
        }
        let got = self.server.release_all(&locks, owner);
        self.judge(|model, now, seen| model.release_all(&locks, owner, now, seen, &got))
    }

    pub(super) fn renew(&mut self, which: Which, who: Who, ttl: Ms) -> Verdict {
        let locks = self.locks_of(which);
        if !self.may_write_all(&locks) {
            return Ok(());
        }
        let owner = self.name_of(who, locks[0]);
        let got = self.server.renew_all(&locks, owner, ttl);
        self.judge(|model, now, seen| model.renew(&locks, (owner, ttl), now, seen, &got))
    }

    pub(super) fn break_holds(&mut self, lock: Lock, wanted: Break) -> Verdict {
        if !self.may_write_all(&[lock]) {
            return Ok(());
        }
        let got = self.server.break_holds(lock, wanted);
        self.judge(|model, now, seen| model.break_holds(lock, wanted, now, seen, &got))
    }

    pub(super) fn guard(&mut self, lock: Lock, who: Who) -> Verdict {
        if !self.may_write_all(&[lock]) {
            return Ok(());
        }
        let owner = self.name_of(who, lock);
        let got = self.server.guard(lock, owner);
        self.counts.guarded += u64::from(got == Ok(true));
        self.judge(|model, now, seen| model.guard(lock, owner, now, seen, &got))
    }

    pub(super) fn check(&mut self, lock: Lock, who: Who) -> Verdict {
        let owner = self.name_of(who, lock);
        let got = self.server.check(lock, owner);
        self.judge(|model, now, _| {
            let right = if model.is_no_lock(lock, now) {
                Err(NotALock)
            } else {
                Ok((model.hold_of(lock, owner, now)).map(|(hold, until)| {
                    model.tell(lock, owner, hold);
                    left(until, now)
                }))
            };
            ensure(got == right, || {
                format!("{owner} checks {lock:?}: {got:?}, not {right:?}")
            })
        })
    }

    pub(super) fn report(&mut self, lock: Lock) -> Verdict {
        let queue = self.server.queue(lock);
        let got = self.server.report(lock);
        self.judge(|model, now, _| {
            let mut right = model.holders(lock, now);
            right.sort();
            let kind = model.kind(lock, now);
            let is_right = |report: &Report| {
                let mut found: Vec<_> = report.holders.iter().collect();
                found.sort_by_key(|holder| &holder.owner);
                let holders = found.into_iter().zip(&right);
                report.hold == kind
                    && (report.count, report.holders.len()) == (right.len(), right.len())
                    && { holders }.all(|(holder, &(owner, until))| {
                        let grant = kind.and_then(|kind| model.grant_of(lock, owner, kind));
                        (holder.owner.as_deref()).is_none_or(|known| known == owner.as_bytes())
                            && holder.left == left(until, now)
                            && holder.grant.map(|grant| grant.fence)
                                == grant.and_then(|grant| grant.fence)
                    })
                    && (report.queue, report.waiters.len()) == (queue.len(), queue.len())
            };
            let agrees = match &got {
                Err(NotALock) => model.is_no_lock(lock, now),
                Ok(Some(report)) => is_right(report) && !model.is_no_lock(lock, now),
                Ok(None) => right.is_empty() && queue.is_empty(),
            };
            ensure(agrees, || {
                format!("report of {lock:?}: {got:?}, but {right:?} and {queue:?}")
            })
        })
    }
}

fn left(deadline: Option<Ms>, now: Ms) -> Left {
    deadline.map_or(Left::Unlimited, |deadline| {
        Left::Ms((deadline - now).max(1))
    })
}
