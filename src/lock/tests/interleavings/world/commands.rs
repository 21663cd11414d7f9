//! Our own commands, and what they should answer.

use super::super::steps::{Wait, Who};
use super::World;
use crate::lock::tests::model::{Held, Key, Verdict, ensure};
use crate::lock::tests::simulated::Lock;
use crate::lock::{Acquired, Left, Ms, NotALock, Patience, Report};

impl World {
    pub(super) fn acquire(
        &mut self,
        lock: Lock,
        who: Who,
        ttl: Ms,
        wait: Wait,
        blockable: bool,
    ) -> Verdict {
        if !self.may_write(lock) {
            return Ok(());
        }
        let owner = self.name_of(who, lock);
        let patience = match wait {
            Wait::Try => Patience::Try,
            Wait::For(ms) => Patience::Until(self.now() + ms),
            Wait::Forever => Patience::Forever,
        };
        let (got, patience) = if blockable {
            (self.server.acquire(lock, owner, ttl, patience), patience)
        } else {
            let got = self.server.acquire_unblockable(lock, owner, ttl, patience);
            (got, Patience::Try)
        };
        self.counts.granted_at_once += u64::from(matches!(got, Ok(Acquired::Held(_))));
        self.judge(|model, now, seen| model.acquire(lock, (owner, ttl, patience), now, seen, got))
    }

    pub(super) fn release(&mut self, lock: Lock, who: Who) -> Verdict {
        if !self.may_write(lock) {
            return Ok(());
        }
        let owner = self.name_of(who, lock);
        let got = self.server.release(lock, owner);
        self.judge(|model, now, seen| model.release(lock, owner, now, seen, got))
    }

    pub(super) fn renew(&mut self, lock: Lock, who: Who, ttl: Ms) -> Verdict {
        if !self.may_write(lock) {
            return Ok(());
        }
        let owner = self.name_of(who, lock);
        let got = self.server.renew(lock, owner, ttl);
        self.judge(|model, now, seen| model.renew(lock, (owner, ttl), now, seen, got))
    }

    pub(super) fn check(&mut self, lock: Lock, who: Who) -> Verdict {
        let owner = self.name_of(who, lock);
        let got = self.server.check(lock, owner);
        self.judge(|model, now, _| {
            let right = match model.look(lock, now) {
                Some(Key {
                    held: Held::NoLock, ..
                }) => Err(NotALock),
                Some(Key {
                    held: Held::By(holder),
                    deadline,
                    ..
                }) if holder == owner => {
                    model.tell(lock, owner);
                    Ok(Some(left(deadline, now)))
                }
                _ => Ok(None),
            };
            ensure(got == right, || {
                format!("{owner} checks {lock:?}: {got:?}, not {right:?}")
            })
        })
    }

    pub(super) fn report(&mut self, lock: Lock) -> Verdict {
        let line = self.server.line(lock);
        let got = self.server.report(lock);
        let fence = |report: &Report| report.holder.as_ref()?.grant.map(|grant| grant.fence);
        self.judge(|model, now, _| {
            let key = model.look(lock, now);
            let agrees = match (&got, key.map(|key| key.held)) {
                (Err(NotALock), Some(Held::NoLock)) => true,
                (Ok(Some(report)), Some(Held::By(owner))) => {
                    let holder = report.holder.as_ref();
                    let known = model
                        .grants
                        .iter()
                        .find(|grant| grant.lock == lock && grant.owner == owner);
                    holder.is_some_and(|holder| holder.owner == owner.as_bytes())
                        && holder.map(|holder| holder.left)
                            == key.map(|key| left(key.deadline, now))
                        && fence(report) == known.map(|grant| grant.fence)
                        && report.queue == line.len()
                        && report.waiters.len() == line.len()
                }
                (Ok(Some(report)), None) => report.holder.is_none() && report.queue == line.len(),
                (Ok(None), None) => line.is_empty(),
                _ => false,
            };
            ensure(agrees, || {
                format!("report of {lock:?}: {got:?}, but {key:?} and {line:?}")
            })
        })
    }
}

fn left(deadline: Option<Ms>, now: Ms) -> Left {
    deadline.map_or(Left::Unlimited, |deadline| {
        Left::Ms((deadline - now).max(1))
    })
}
