//! Was this the right reply?

use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::{Happened, Server, name};
use crate::lock::{Acquired, Left, Ms, NameRef, Refusal};

use super::super::action::{Ask, LOCKS, LockNo, OWNERS, OwnerNo, Wait as Waits};
use super::{Book, Cause, Wait, is_place};

impl Book {
    pub fn follow(&mut self, happened: &Happened, cause: Cause, server: &Server) -> Verdict {
        self.take_in(happened, None, cause, server)
    }

    pub fn acquired(
        &mut self,
        ask: Ask,
        client: u64,
        got: Result<Acquired, Refusal>,
        happened: &Happened,
        server: &Server,
    ) -> Verdict {
        let told = match got {
            Ok(Acquired::Held(fence)) => Some((ask, client, fence)),
            _ => None,
        };
        let own = self.wait_of(&ask).cloned();
        let is_same = |own: &&Wait| own.ask.locks == ask.locks;
        let same = own.as_ref().filter(is_same);
        let takes_over = same.filter(|own| own.ask.mode == ask.mode);
        let is_other = own.is_some() && same.is_none();
        let gives_way = matches!(got, Ok(Acquired::Waiting(_) | Acquired::Place(_)));
        let replaced = same.filter(|_| gives_way).and_then(|own| own.ticket);
        ensure(happened.replaced.iter().eq(&replaced), || {
            format!("{ask}, and {:?} are replaced, not {replaced:?}", happened.replaced)
        })?;
        ensure(!(is_other && gives_way), || format!("{ask}, and waits for others already"))?;
        // A place that has lost what it was granted waits again as well.
        let is_lost = |wait: &&Wait| {
            wait.ticket.is_none()
                && wait.granted.is_some()
                && (wait.ask.owner, wait.ask.locks) == (ask.owner, ask.locks)
        };
        let lost = self.waits.iter().find(is_lost).cloned();
        self.take_in(happened, told, Cause::Owner(ask.owner), server)?;
        let shut = self.what_is_in_the_way(&ask, self.place_of(&ask), false);
        let is_late = self.late_until > 0 || self.holds.iter().any(|hold| hold.may_go());
        let could_have = || format!("{ask}, could have it, and gets {got:?}");
        let until = match ask.wait {
            Waits::For(ms) | Waits::Place { lease: ms, .. } => Some(self.now + ms),
            Waits::Try | Waits::Forever => None,
        };
        let wait = |ticket, place| Wait {
            ticket,
            place,
            ask,
            client,
            until,
            granted: None,
            over: false,
            asleep: false,
            closed: false,
        };
        match got {
            Ok(Acquired::Held(_)) => {}
            Ok(Acquired::Busy) => ensure(shut.is_some() || is_late, could_have)?,
            Ok(Acquired::Waiting(ticket)) => {
                ensure(shut.is_some() || is_late, could_have)?;
                let old = same.or(lost.as_ref());
                if let Some(old) = old {
                    self.waits.retain(|wait| wait.place != old.place);
                }
                // It stands where its owner's wait stood, or at the end.
                let taken_over = old.filter(|old| old.ask.mode == ask.mode);
                let place = taken_over.and_then(|old| old.place);
                if taken_over.is_none_or(|old| old.asleep || old.granted.is_some()) {
                    self.judge_deadlock(&ask, false, server)?;
                }
                self.waits.push(wait(Some(ticket), place.or(Some(ticket))));
                self.waits.sort_by_key(|wait| wait.place);
            }
            Ok(Acquired::Place(before)) => {
                ensure(shut.is_some() || is_late, could_have)?;
                let old = (self.waits.iter()).position(|wait| {
                    same.is_some_and(|own| own.place == wait.place)
                        || wait.ticket.is_none()
                            && (wait.ask.owner, wait.ask.locks) == (ask.owner, ask.locks)
                });
                let names: Vec<NameRef<'_>> =
                    (ask.locks.iter()).map(|&lock| name(LOCKS[lock])).collect();
                let place =
                    server.locks.waiting.waits.place_of(OWNERS[ask.owner].as_bytes(), &names);
                match old {
                    Some(at) if self.waits[at].place == place => {
                        let slept = self.waits.remove(at).asleep;
                        if slept {
                            self.judge_deadlock(&ask, false, server)?;
                        }
                        self.waits.insert(at, wait(None, place));
                    }
                    old => {
                        // A client that asks when the lease is over may have lost the place, and comes last.
                        let is_kept = old.map(|at| self.waits.remove(at)).filter(|old| {
                            old.ask.mode == ask.mode && !old.closed && old.until > Some(self.now)
                        });
                        ensure(is_kept.is_none(), || {
                            format!("{ask}, in time, and has lost its place")
                        })?;
                        self.judge_deadlock(&ask, false, server)?;
                        self.waits.push(wait(None, place));
                    }
                }
                let behind = self.stands_behind(&ask);
                // Those who are taken out of their queues in the next turn count until then.
                let locks = &server.locks;
                let is_late = locks.waiting.places.have_endings();
                ensure(behind <= before && (before == behind || is_late), || {
                    format!("{ask}, stands behind {behind}, and gets {before}")
                })?;
            }
            Err(Refusal::Deadlock(_)) => {
                let is_awake = takes_over.is_some_and(|own| !own.asleep && self.lives(own));
                ensure(!is_awake, || format!("{ask}, which it waits for already: {got:?}"))?;
                self.judge_deadlock(&ask, true, server)?;
            }
            Err(Refusal::OneWait(_)) => {
                ensure(is_other && ask.wait != Waits::Try, || {
                    format!("{ask}, and gets the reply that it waits for others: {own:?}")
                })?;
            }
            Err(Refusal::Undelivered(_)) => {
                let is_undelivered = ask.locks.iter().any(|&lock| {
                    self.hold(ask.owner, lock).is_some_and(|hold| !hold.told || hold.unclaimed)
                });
                ensure(is_undelivered && ask.wait != Waits::Try, || {
                    format!("{ask}, and gets the reply that it has not heard of a grant")
                })?;
            }
            Err(Refusal::NotALock(_)) => {
                let is_none = ask.locks.iter().any(|&lock| self.no_lock[lock]);
                ensure(is_none, || format!("{ask}, and gets the reply that it is no lock"))?;
            }
            Err(Refusal::HoldsSome) => {
                let has = ask.locks.iter().any(|&lock| self.hold(ask.owner, lock).is_some());
                ensure(has && is_place(&ask), || {
                    format!("{ask}, and gets the reply that it holds some")
                })?;
            }
            Err(Refusal::NoUpgrade) => {
                let is_upgrade = self.is_upgrade(&ask, false) && ask.wait != Waits::Try;
                let might = shut.is_none() && !is_place(&ask) && !is_late;
                ensure(is_upgrade && !might, || {
                    format!("{ask}, and gets the reply that it shares it")
                })?;
            }
            Err(other) => return Err(format!("{ask}: {other:?}")),
        }
        Ok(())
    }

    /// The wait of this owner in the database of these locks, if only a place that sleeps.
    pub(super) fn wait_of(&self, ask: &Ask) -> Option<&Wait> {
        self.waits.iter().find(|wait| {
            let is_over = wait.until.is_some_and(|until| until <= self.now);
            let waits = !wait.over && wait.granted.is_none() && !is_over;
            let is_here = LOCKS[wait.ask.locks[0]].0 == LOCKS[ask.locks[0]].0;
            waits && wait.ask.owner == ask.owner && is_here
        })
    }

    /// Where this request stands, if it is for a place.
    fn place_of(&self, ask: &Ask) -> usize {
        let own = self.waits.iter().position(|wait| {
            is_place(ask)
                && wait.ticket.is_none()
                && (wait.ask.owner, wait.ask.locks, wait.ask.mode)
                    == (ask.owner, ask.locks, ask.mode)
        });
        own.unwrap_or(self.waits.len())
    }

    /// How many come before it in the longest of its queues.
    fn stands_behind(&self, ask: &Ask) -> usize {
        let at = self.place_of(ask);
        let before = |lock: &LockNo| {
            let waits = self.waits.iter().enumerate().filter(|(place, wait)| {
                self.lives(wait) && wait.ask.locks.contains(lock) && *place < at
            });
            waits.count()
        };
        ask.locks.iter().map(before).max().unwrap_or_default()
    }

    /// A release ends the hold, told or not, and withdraws what the owner waits for there.
    pub fn released(&mut self, owner: OwnerNo, locks: &[LockNo], got: Option<usize>) -> Verdict {
        let Some(got) = got else {
            return self.ensure_no_lock(locks);
        };
        let (mut least, mut most) = (0, 0);
        for &lock in locks {
            if let Some(hold) = self.hold(owner, lock) {
                let is_told = hold.told && hold.is_clear && !hold.closed && !hold.unclaimed;
                least += usize::from(is_told && !hold.is_loose);
                most += usize::from(hold.told || hold.under_way > 0 || hold.closed);
            }
            self.take_hold(owner, lock);
        }
        ensure((least..=most).contains(&got), || {
            format!("{} releases {least} to {most}, and gets {got}", OWNERS[owner])
        })?;
        let mut unclear = Vec::new();
        self.waits.retain(|wait| {
            let is_named =
                wait.ask.owner == owner && wait.ask.locks.iter().any(|one| locks.contains(one));
            if is_named && wait.granted.is_some() {
                unclear.extend(wait.ask.locks);
            }
            !is_named || wait.ticket.is_some()
        });
        // What was granted together and has not been heard of goes together.
        for &lock in &unclear {
            let has_place = self.waits.iter().any(|wait| {
                wait.ticket.is_none() && wait.ask.owner == owner && wait.ask.locks.contains(&lock)
            });
            if let Some(hold) = self.hold_mut(owner, lock) {
                hold.is_clear = false;
                hold.unclaimed &= has_place;
            }
        }
        Ok(())
    }

    pub fn renewed(
        &mut self,
        owner: OwnerNo,
        locks: &[LockNo],
        ttl: Ms,
        got: Option<bool>,
    ) -> Verdict {
        let Some(got) = got else {
            return self.ensure_no_lock(locks);
        };
        let holds = |lock: &LockNo| self.hold(owner, *lock);
        let may = (locks.iter()).all(|lock| holds(lock).is_some());
        let is_clear = locks.iter().all(|lock| holds(lock).is_none_or(|hold| !hold.may_go()));
        ensure(if is_clear { got == may } else { may || !got }, || {
            let held = if may { "holds" } else { "does not hold" };
            format!("{} {held} what it renews, and gets {got}", OWNERS[owner])
        })?;
        if got {
            for &lock in locks {
                let until = Some(self.now + ttl);
                self.is_strange[lock] = false;
                if let Some(hold) = self.hold_mut(owner, lock) {
                    (hold.until, hold.by_wall) = (until, false);
                    (hold.told, hold.unclaimed) = (true, false);
                }
            }
        }
        Ok(())
    }

    pub fn checked(&mut self, owner: OwnerNo, lock: LockNo, got: Option<Option<Left>>) -> Verdict {
        let Some(got) = got else {
            return self.ensure_no_lock(&[lock]);
        };
        let now = self.now;
        let left = self.hold(owner, lock).map(|hold| match hold.until {
            Some(until) => Left::Ms(until.saturating_sub(now).max(1)),
            None => Left::Unlimited,
        });
        let is_clear = self.hold(owner, lock).is_none_or(|hold| !hold.may_go());
        ensure(got == left || !is_clear && got.is_none(), || {
            format!("{} has {left:?} left of {}, and gets {got:?}", OWNERS[owner], LOCKS[lock].1)
        })?;
        self.tell(owner, lock, got.is_some());
        Ok(())
    }

    pub fn guarded(&mut self, owner: OwnerNo, lock: LockNo, got: Option<bool>) -> Verdict {
        let Some(got) = got else {
            return self.ensure_no_lock(&[lock]);
        };
        let hold = self.hold(owner, lock);
        let is_clear = hold.is_none_or(|hold| !hold.may_go());
        ensure(got == hold.is_some() || !is_clear && !got, || {
            format!("a command runs under {} for {}: {got}", LOCKS[lock].1, OWNERS[owner])
        })?;
        self.tell(owner, lock, got);
        Ok(())
    }

    /// The owner has learnt that it has the lock. That claims nothing.
    fn tell(&mut self, owner: OwnerNo, lock: LockNo, has_it: bool) {
        if let Some(hold) = self.hold_mut(owner, lock).filter(|_| has_it) {
            hold.told = true;
        }
    }

    pub fn broken(&mut self, lock: LockNo, got: Option<usize>) -> Verdict {
        let Some(got) = got else {
            return self.ensure_no_lock(&[lock]);
        };
        let held = self.holds.iter().filter(|hold| hold.lock == lock).count();
        let may_be_data = (self.holds.iter())
            .any(|hold| hold.lock == lock && hold.until.is_none() && hold.any_number);
        if may_be_data && got == 0 {
            return Ok(());
        }
        let is_clear = !self.holds.iter().any(|hold| hold.lock == lock && hold.may_go());
        // A client that could have it is granted it before.
        ensure(got == held || !is_clear || !self.waits.is_empty(), || {
            format!("{held} holds of {} are broken, and {got} are counted", LOCKS[lock].1)
        })?;
        self.broken = Some(lock);
        let ending = self.holds.iter_mut().filter(|hold| hold.lock == lock);
        ending.for_each(|hold| hold.is_ending = true);
        Ok(())
    }

    fn ensure_no_lock(&self, locks: &[LockNo]) -> Verdict {
        ensure(locks.iter().any(|&lock| self.no_lock[lock]), || {
            "a lock is said to be no lock".to_owned()
        })
    }
}
