//! The rules once more: plain lists, walked from end to end, and no care for speed.
//!
//! The model decides who holds what and who waits. Two things it takes from the core: the numbers of
//! new grants, of which it checks that they rise; and the moment in which something is done that may
//! be done at any time, such as a retry after the server had refused a write.

use crate::lock::fencing::Fence;
use crate::lock::{Acquired, Db, Ms, NotALock, Patience, Ticket};

use super::simulated::{Lock, Owner};

/// What does not agree.
pub type Verdict<T = ()> = Result<T, String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    By(Owner),
    /// The key is no lock.
    NoLock,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub lock: Lock,
    pub held: Held,
    pub deadline: Option<Ms>,
}

#[derive(Clone, Debug)]
pub struct Waiter {
    pub ticket: Ticket,
    pub lock: Lock,
    pub owner: Owner,
    pub ttl: Ms,
    pub until: Option<Ms>,
}

/// What is known of a hold that this server granted.
#[derive(Clone, Debug)]
pub struct Grant {
    pub lock: Lock,
    pub owner: Owner,
    pub fence: Fence,
    /// Somebody was told.
    pub told: bool,
    /// Who may still be told.
    pub under_way: Vec<Ticket>,
    /// Nobody was told, and nobody will be.
    pub to_return: bool,
}

/// What the core did in the step that the model is about to judge.
pub struct Seen<'a> {
    /// Waiters that it granted.
    pub granted: &'a [(Ticket, Fence)],
    /// May it write this lock, and had it to do so by now?
    pub had_to: &'a dyn Fn(Lock) -> bool,
    /// Does it remember a grant of this lock?
    pub remembers: &'a dyn Fn(Lock) -> bool,
    /// Has it dealt with the note of this lock?
    pub looked: &'a dyn Fn(Lock) -> bool,
    /// Has it dealt with the return of this grant?
    pub returned: &'a dyn Fn(Fence) -> bool,
}

#[derive(Debug, Default)]
pub struct Model {
    pub keys: Vec<Key>,
    /// Of all locks, in the order of arrival.
    pub queue: Vec<Waiter>,
    pub grants: Vec<Grant>,
    /// Locks that something has happened to.
    pub noted: Vec<Lock>,
    /// The highest number before this step.
    pub highest: Fence,
    /// New numbers in this step.
    pub fresh: Vec<Fence>,
    /// Waiters granted in this step.
    pub granted: Vec<Ticket>,
    /// How often a waiter came to hold a lock through somebody else: by a foreign write, or by
    /// another waiter of its owner.
    pub adopted: u64,
    pub joined: u64,
    last_ticket: Ticket,
}

impl Model {
    /// A step begins.
    pub fn begin(&mut self) {
        self.highest = self.fresh.drain(..).fold(self.highest, Fence::max);
        self.granted.clear();
    }

    // Looking.

    pub fn look(&self, lock: Lock, now: Ms) -> Option<Key> {
        self.keys
            .iter()
            .find(|key| key.lock == lock && !is_over(key.deadline, now))
            .copied()
    }

    pub fn holder(&self, lock: Lock, now: Ms) -> Option<Owner> {
        match self.look(lock, now)?.held {
            Held::By(owner) => Some(owner),
            Held::NoLock => None,
        }
    }

    /// Those who wait and whose time is not up.
    pub fn line(&self, lock: Lock, now: Ms) -> Vec<Waiter> {
        self.queue
            .iter()
            .filter(|waiter| waiter.lock == lock && !is_up(waiter.until, now))
            .cloned()
            .collect()
    }

    /// Who should be served at once: the first in line if the lock is free, or one who waits for
    /// what it holds.
    pub fn next(&self, lock: Lock, now: Ms) -> Option<Waiter> {
        let line = self.line(lock, now);
        match self.look(lock, now).map(|key| key.held) {
            None => line.into_iter().next(),
            Some(Held::By(owner)) => line.into_iter().find(|waiter| waiter.owner == owner),
            Some(Held::NoLock) => None,
        }
    }

    // Commands.

    pub fn acquire(
        &mut self,
        lock: Lock,
        (owner, ttl, patience): (Owner, Ms, Patience),
        now: Ms,
        seen: &Seen<'_>,
        got: Result<Acquired, NotALock>,
    ) -> Verdict {
        self.settle_queue(lock, now, seen)?;
        let free = self.look(lock, now).is_none() && self.line(lock, now).is_empty();
        let holds = self.holder(lock, now) == Some(owner);
        match (self.look(lock, now).map(|key| key.held), got) {
            (Some(Held::NoLock), Err(NotALock)) => Ok(()),
            (_, Ok(Acquired::Held(fence))) if holds => {
                self.hold_on(lock, owner, ttl, now, fence, None)
            }
            (_, Ok(Acquired::Held(fence))) if free => {
                self.grant(lock, owner, now + ttl, fence, None)
            }
            (Some(Held::By(_)), Ok(Acquired::Busy)) if !holds && patience == Patience::Try => {
                Ok(())
            }
            (Some(Held::By(_)), Ok(Acquired::Waiting(ticket)))
                if !holds && patience != Patience::Try =>
            {
                ensure(ticket > self.last_ticket, || {
                    format!("ticket {ticket} after {}", self.last_ticket)
                })?;
                self.last_ticket = ticket;
                let until = match patience {
                    Patience::Until(until) => Some(until),
                    Patience::Try | Patience::Forever => None,
                };
                self.queue.push(Waiter {
                    ticket,
                    lock,
                    owner,
                    ttl,
                    until,
                });
                Ok(())
            }
            (held, got) => Err(format!("{owner} acquires {lock:?}, {held:?}: {got:?}")),
        }
    }

    pub fn release(
        &mut self,
        lock: Lock,
        owner: Owner,
        now: Ms,
        seen: &Seen<'_>,
        got: Result<bool, NotALock>,
    ) -> Verdict {
        self.settle_queue(lock, now, seen)?;
        if self.answers(lock, owner, now, got, "releases")? {
            self.pass_on(lock, now, seen)?;
        }
        Ok(())
    }

    pub fn renew(
        &mut self,
        lock: Lock,
        (owner, ttl): (Owner, Ms),
        now: Ms,
        seen: &Seen<'_>,
        got: Result<bool, NotALock>,
    ) -> Verdict {
        self.settle_queue(lock, now, seen)?;
        if self.answers(lock, owner, now, got, "renews")? {
            self.set_deadline(lock, Some(now + ttl));
            self.tell(lock, owner);
        }
        Ok(())
    }

    /// An answer has told the owner that it holds the lock.
    pub fn tell(&mut self, lock: Lock, owner: Owner) {
        for grant in &mut self.grants {
            if grant.lock == lock && grant.owner == owner {
                grant.told = true;
            }
        }
    }

    /// Is this answer right that says whether the owner holds the lock?
    fn answers(
        &self,
        lock: Lock,
        owner: Owner,
        now: Ms,
        got: Result<bool, NotALock>,
        what: &str,
    ) -> Verdict<bool> {
        let held = self.look(lock, now).map(|key| key.held);
        let right = match held {
            Some(Held::NoLock) => Err(NotALock),
            held => Ok(held == Some(Held::By(owner))),
        };
        ensure(got == right, || {
            format!("{owner} {what} {lock:?}, {held:?}: {got:?}")
        })?;
        Ok(got == Ok(true))
    }

    // What others do to the keys.

    pub fn set(&mut self, lock: Lock, held: Held, deadline: Option<Ms>) {
        self.remove(lock);
        self.keys.push(Key {
            lock,
            held,
            deadline,
        });
    }

    pub fn remove(&mut self, lock: Lock) {
        self.keys.retain(|key| key.lock != lock);
    }

    pub fn set_deadline(&mut self, lock: Lock, deadline: Option<Ms>) {
        for key in &mut self.keys {
            if key.lock == lock {
                key.deadline = deadline;
            }
        }
    }

    pub fn rename(&mut self, from: Lock, to: Lock) {
        if self.keys.iter().any(|key| key.lock == from) {
            self.remove(to);
        }
        for key in &mut self.keys {
            if key.lock == from {
                key.lock = to;
            }
        }
    }

    pub fn flush(&mut self, db: Option<Db>) {
        let flushed = |lock: Lock| db.is_none_or(|db| lock.0 == db);
        self.keys.retain(|key| !flushed(key.lock));
        self.grants.retain(|grant| !flushed(grant.lock));
        self.noted.extend(
            self.queue
                .iter()
                .map(|waiter| waiter.lock)
                .filter(|&lock| flushed(lock)),
        );
    }

    /// Something has happened to a lock's key.
    pub fn note(&mut self, lock: Lock) {
        let matters = self.queue.iter().any(|waiter| waiter.lock == lock)
            || self.grants.iter().any(|grant| grant.lock == lock);
        if matters {
            self.noted.push(lock);
        }
    }

    /// The keys change places, and what is known of them; those who wait do not.
    pub fn swap(&mut self, one: Db, other: Db) {
        let swapped = |(db, key): Lock| match db {
            db if db == one => (other, key),
            db if db == other => (one, key),
            db => (db, key),
        };
        // What was noted of a place has moved, and something else has come there.
        let moved: Vec<Lock> = self.noted.iter().copied().map(swapped).collect();
        self.noted.extend(moved);
        for key in &mut self.keys {
            key.lock = swapped(key.lock);
        }
        for grant in &mut self.grants {
            grant.lock = swapped(grant.lock);
        }
        self.noted
            .extend(self.queue.iter().map(|waiter| waiter.lock));
    }

    /// What was known of the holds is void; keys and queue stay.
    pub fn forget_grants(&mut self) {
        self.grants.clear();
        self.noted
            .extend(self.queue.iter().map(|waiter| waiter.lock));
    }

    /// Nothing is left but the keys.
    pub fn restart(&mut self) {
        self.grants.clear();
        self.queue.clear();
        self.noted.clear();
        self.last_ticket = 0;
    }

    // Waiters.

    /// The core has ended the wait of this one because its time was up.
    pub fn timed_out(&mut self, ticket: Ticket, now: Ms) -> Verdict {
        let waiter = self.leave(ticket)?;
        ensure(is_up(waiter.until, now), || {
            format!("timed out too early: {waiter:?}")
        })
    }

    pub fn leave(&mut self, ticket: Ticket) -> Verdict<Waiter> {
        let at = self.queue.iter().position(|waiter| waiter.ticket == ticket);
        at.map(|at| self.queue.remove(at))
            .ok_or_else(|| format!("{ticket} does not wait"))
    }

    /// A waiter has come to its end.
    pub fn ended(&mut self, ticket: Ticket, heard: bool) {
        self.queue.retain(|waiter| waiter.ticket != ticket);
        for grant in &mut self.grants {
            if grant.under_way.contains(&ticket) {
                grant.under_way.retain(|&other| other != ticket);
                grant.told |= heard;
                grant.to_return = !grant.told && grant.under_way.is_empty();
            }
        }
    }

    // What the core does by itself.

    pub fn tick(&mut self, known: &[Lock], now: Ms, seen: &Seen<'_>) -> Verdict {
        for grant in self.grants.clone() {
            if !grant.to_return || !(seen.returned)(grant.fence) {
                continue;
            }
            let unheard = self.is_unheard(grant.fence);
            let held = self.holder(grant.lock, now) == Some(grant.owner);
            self.dealt_with(grant.fence);
            if unheard && held {
                self.pass_on(grant.lock, now, seen)?;
            }
        }
        for &lock in known {
            let noted = self.noted.contains(&lock);
            if noted && (seen.looked)(lock) {
                self.noted.retain(|&other| other != lock);
                self.forget_void(lock, now);
            }
            // It may have come here to grant the lock, and have been refused.
            if !(seen.remembers)(lock) {
                self.forget_void(lock, now);
            }
            // Those whose time is up are gone before anything else is done.
            if (seen.had_to)(lock) && !self.line(lock, now).is_empty() {
                self.settle(lock, now, seen)?;
            }
        }
        Ok(())
    }

    fn is_unheard(&self, fence: Fence) -> bool {
        self.grants
            .iter()
            .any(|grant| grant.fence == fence && !grant.told && grant.under_way.is_empty())
    }

    fn dealt_with(&mut self, fence: Fence) {
        for grant in &mut self.grants {
            grant.to_return &= grant.fence != fence;
        }
    }

    // How a lock comes to be held, and goes on.

    fn settle_queue(&mut self, lock: Lock, now: Ms, seen: &Seen<'_>) -> Verdict {
        if self.queue.iter().all(|waiter| waiter.lock != lock) {
            return Ok(());
        }
        self.settle(lock, now, seen)
    }

    fn settle(&mut self, lock: Lock, now: Ms, seen: &Seen<'_>) -> Verdict {
        self.forget_void(lock, now);
        while let Some(waiter) = self.next(lock, now) {
            let fence = self.number_of(&waiter, seen)?;
            self.leave(waiter.ticket)?;
            self.granted.push(waiter.ticket);
            if self.holder(lock, now) == Some(waiter.owner) {
                self.hold_on(
                    lock,
                    waiter.owner,
                    waiter.ttl,
                    now,
                    fence,
                    Some(waiter.ticket),
                )?;
            } else {
                self.grant(
                    lock,
                    waiter.owner,
                    now + waiter.ttl,
                    fence,
                    Some(waiter.ticket),
                )?;
            }
        }
        Ok(())
    }

    /// The hold is over, and the next in line has the lock.
    fn pass_on(&mut self, lock: Lock, now: Ms, seen: &Seen<'_>) -> Verdict {
        self.remove(lock);
        self.settle(lock, now, seen)
    }

    /// What is remembered of a hold that is gone is void.
    fn forget_void(&mut self, lock: Lock, now: Ms) {
        let holder = self.holder(lock, now);
        self.grants
            .retain(|grant| grant.lock != lock || Some(grant.owner) == holder);
    }

    fn number_of(&self, waiter: &Waiter, seen: &Seen<'_>) -> Verdict<Fence> {
        seen.granted
            .iter()
            .find(|granted| granted.0 == waiter.ticket)
            .map(|granted| granted.1)
            .ok_or_else(|| format!("should be granted, and is not: {waiter:?}"))
    }

    fn grant(
        &mut self,
        lock: Lock,
        owner: Owner,
        deadline: Ms,
        fence: Fence,
        waiter: Option<Ticket>,
    ) -> Verdict {
        self.set(lock, Held::By(owner), Some(deadline));
        self.grants.retain(|grant| grant.lock != lock);
        self.remember(lock, owner, fence, waiter, waiter.is_none())
    }

    fn hold_on(
        &mut self,
        lock: Lock,
        owner: Owner,
        ttl: Ms,
        now: Ms,
        fence: Fence,
        waiter: Option<Ticket>,
    ) -> Verdict {
        let deadline = self.look(lock, now).and_then(|key| key.deadline);
        self.set_deadline(lock, deadline.max(Some(now + ttl)));
        let known = self
            .grants
            .iter_mut()
            .find(|grant| grant.lock == lock && grant.owner == owner);
        let Some(grant) = known else {
            // Somebody else wrote this hold, and whoever did so knows of it.
            self.grants.retain(|grant| grant.lock != lock);
            self.adopted += u64::from(waiter.is_some());
            return self.remember(lock, owner, fence, waiter, true);
        };
        self.joined += u64::from(waiter.is_some());
        grant.under_way.extend(waiter);
        grant.told |= waiter.is_none();
        let same = grant.fence;
        ensure(same == fence, || {
            format!("{owner} held {lock:?} by {same}, now by {fence}")
        })
    }

    fn remember(
        &mut self,
        lock: Lock,
        owner: Owner,
        fence: Fence,
        waiter: Option<Ticket>,
        told: bool,
    ) -> Verdict {
        ensure(fence > self.highest && !self.fresh.contains(&fence), || {
            format!("{fence} is not a new number after {}", self.highest)
        })?;
        self.fresh.push(fence);
        self.grants.push(Grant {
            lock,
            owner,
            fence,
            told,
            under_way: waiter.into_iter().collect(),
            to_return: false,
        });
        Ok(())
    }
}

fn is_over(deadline: Option<Ms>, now: Ms) -> bool {
    deadline.is_some_and(|deadline| now > deadline)
}

/// Is the time of one who waits until then up?
pub fn is_up(until: Option<Ms>, now: Ms) -> bool {
    until.is_some_and(|until| until <= now)
}

pub fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise()) }
}
