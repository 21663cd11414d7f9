//! Was this the right reply?

use super::comparing::left;
use super::granting::group;
use super::{Model, Verdict, Waiter, ensure};
use crate::lock::tests::simulated::{Lock, Owner, Request, name};
use crate::lock::{
    Acquired, Hold as How, Left, Mode, Ms, Name, NotALock, Patience, Refusal, Ticket,
};

impl Model {
    pub(super) fn acquired(
        &mut self,
        locks: &[Lock],
        ask: &Request,
        got: &Result<Acquired, Refusal>,
    ) -> Verdict {
        let is_place = matches!(ask.patience, Patience::Place(_));
        let may_have = matches!(got, Ok(Acquired::Held(_) | Acquired::Place(_)));
        ensure(!(is_place && may_have && self.surely_holds_some(locks, ask)), || {
            format!("{ask:?} is for what its owner holds in part: {locks:?}, {got:?}")
        })?;
        if let Ok(Acquired::Held(fence)) = got {
            let upgrades = is_place && self.is_upgrade(locks, ask, true);
            ensure(!upgrades, || format!("{ask:?} upgrades {locks:?}"))?;
            return self.grant(locks, ask, *fence, None);
        }
        let no_lock = locks.iter().any(|&lock| self.is_no_lock(lock));
        if is_place {
            self.keeps_place(locks, ask);
        }
        let shut = self.in_the_way(locks, ask, None, false).is_some();
        let needs_none =
            matches!(got, Err(Refusal::HoldsSome | Refusal::NoUpgrade | Refusal::Undelivered(_)));
        ensure(shut || is_place && needs_none, || {
            format!("{ask:?} could have {locks:?}, and gets {got:?}")
        })?;
        // An upgrade does not wait.
        let [surely, perhaps] = [true, false].map(|surely| self.is_upgrade(locks, ask, surely));
        let waits = ask.patience != Patience::Try && !self.limits.drain && !surely;
        let own = self.wait_of(ask.owner, locks).filter(|own| self.lives(own)).cloned();
        let is_same = |own: &&Waiter| {
            own.locks.len() == locks.len() && own.locks.iter().all(|lock| locks.contains(lock))
        };
        let same = own.as_ref().filter(is_same);
        let takes_over = same.is_some_and(|own| own.ask.mode == ask.mode);
        let asleep = same.filter(|own| self.asleep.iter().any(|one| one.since == own.since));
        let since = asleep.filter(|_| takes_over).map_or(Ticket::MAX, |own| own.since);
        let is_other = own.is_some() && same.is_none();
        let not_heard_of = |surely: bool| {
            locks.iter().any(|&lock| {
                let held = self.hold(lock, ask.owner).filter(|held| held.covers(ask.mode));
                held.is_some_and(|held| {
                    // What others have written may look like the grant whose reply is under way.
                    let is_sure = !held.told && !held.under_way.is_empty() && !held.is_loose;
                    let may_be = !held.told || held.is_loose && held.fence.is_some();
                    if surely { is_sure } else { may_be }
                })
            })
        };
        let [surely_unheard, perhaps_unheard] = [true, false].map(not_heard_of);
        // A request in another mode is judged as if its owner's wait were gone.
        let mut without = self.clone();
        if let Some(own) = same {
            without.queue.retain(|one| one.since != own.since);
            without.asleep.retain(|one| one.since != own.since);
        }
        let right = match got {
            Err(Refusal::NotALock(_)) => no_lock,
            _ if no_lock => false,
            Err(Refusal::QueueFull) => {
                self.tally.full += 1;
                waits && !takes_over && !is_other && without.is_full(locks)
            }
            Err(Refusal::Behind(before)) => {
                self.tally.behind += 1;
                let is_behind = |&lock: &Lock| without.is_behind(lock, ask, *before);
                waits && !takes_over && !is_other && locks.iter().any(is_behind)
            }
            Ok(Acquired::Busy) => {
                self.counted.busy += 1;
                ask.patience == Patience::Try || self.limits.drain && !surely
            }
            Err(Refusal::NoUpgrade) => {
                self.tally.upgrades_refused += 1;
                perhaps && ask.patience != Patience::Try
            }
            Err(Refusal::OneWait(names)) => {
                self.tally.one_waits += 1;
                let known = own.as_ref().map(|own| own.locks.iter().map(|&lock| name(lock)));
                waits && is_other && known.is_some_and(|own| own.eq(names.iter().map(Name::borrow)))
            }
            Err(Refusal::Undelivered(_)) => {
                self.tally.not_heard_of += 1;
                (waits || is_place) && perhaps_unheard
            }
            Err(Refusal::HoldsSome) => {
                self.tally.holds_some += 1;
                is_place && locks.iter().any(|&lock| self.hold(lock, ask.owner).is_some())
            }
            Ok(Acquired::Waiting(_) | Acquired::Place(_)) if takes_over => {
                if asleep.is_some() {
                    self.tally.woken += 1;
                    without.judge_deadlock(locks, ask, since, None)?;
                }
                if let Some(own) = same {
                    self.wakes(own.since);
                    let place = self.new_place(ask);
                    self.is_to_hear_on(own.since, place);
                    let handle = match got {
                        Ok(Acquired::Waiting(ticket)) => *ticket,
                        _ => own.since,
                    };
                    let mut queue = self.queue.iter_mut();
                    if let Some(one) = queue.find(|one| one.since == own.since) {
                        self.tally.taken_over += u64::from(!one.is_place());
                        self.replaced.extend((!one.is_place()).then_some(one.ticket));
                        (one.ticket, one.ask, one.barred) = (handle, *ask, false);
                        one.place = place;
                    }
                    if let Ok(Acquired::Place(before)) = got {
                        self.tally.kept += 1;
                        self.rank_is_right(own.since, *before)?;
                    }
                }
                waits && !surely_unheard
            }
            Ok(Acquired::Waiting(_) | Acquired::Place(_)) => {
                let asked = match got {
                    Ok(Acquired::Waiting(ticket)) => Some(*ticket),
                    _ => self.asked,
                };
                let ticket = asked.ok_or_else(|| format!("no place for {ask:?}"))?;
                self.tally.several_waited += u64::from(locks.len() > 1);
                let is_limited =
                    |&lock: &Lock| self.holders(lock).all(|one| one.how == How::Shared);
                let is_limited = locks.iter().all(is_limited);
                let limit = matches!(ask.mode, Mode::Limit(_) | Mode::Fair { .. });
                self.tally.limited += u64::from(limit && is_limited);
                without.judge_deadlock(locks, ask, Ticket::MAX, None)?;
                let is_short = locks.iter().all(|&lock| without.may_join(lock, ask));
                ensure(is_short, || format!("{ask:?} waits behind too many"))?;
                if let Some(own) = same {
                    self.tally.other_modes += 1;
                    self.gave_way = true;
                    self.queue.retain(|one| one.since != own.since);
                    self.asleep.retain(|one| one.since != own.since);
                    self.replaced.extend((!own.is_place()).then_some(own.ticket));
                }
                let place = self.new_place(ask);
                self.queue.push(Waiter {
                    ticket,
                    since: ticket,
                    locks: locks.to_vec(),
                    ask: *ask,
                    barred: false,
                    place,
                });
                if let Ok(Acquired::Place(before)) = got {
                    self.tally.places += 1;
                    self.rank_is_right(ticket, *before)?;
                }
                waits && !is_other && !surely_unheard
            }
            Err(Refusal::Deadlock(deadlock)) => {
                self.counted.deadlocks += 1;
                self.tally.deadlocks += 1;
                without.judge_deadlock(locks, ask, since, Some(deadlock))?;
                waits && (!takes_over || asleep.is_some()) && !is_other
            }
            _ => false,
        };
        ensure(right, || format!("{ask:?} wants {locks:?}: {got:?}"))
    }

    /// Is there no room in the queues? Those whose time is up may count, until that has been seen.
    fn is_full(&self, locks: &[Lock]) -> bool {
        let exceeds = |places: usize, most: u64| most > 0 && places as u64 > most;
        let waiting_for = |lock: &Lock| {
            let waiting = self.queue.iter().filter(|one| one.locks.contains(lock));
            waiting.count()
        };
        let taken: usize = self.queue.iter().map(|one| one.locks.len()).sum();
        let asleep: usize = self.asleep.iter().map(|one| one.locks.len()).sum();
        exceeds(asleep + locks.len(), self.limits.max_waiters_total)
            || exceeds(taken + locks.len(), self.limits.max_waiters_total)
            || (locks.iter()).any(|lock| exceeds(waiting_for(lock) + 1, self.limits.max_waiters))
    }

    /// May so many come before this request, and are they too many for it? Those whose time is up may count,
    /// until that has been seen.
    fn is_behind(&self, lock: Lock, ask: &Request, before: u64) -> bool {
        let all = self.queue.iter().filter(|one| one.locks.contains(&lock));
        let most = all.filter(|one| counts_for(one, ask)).count() as u64;
        before <= most && ask.max_queue.is_some_and(|max_queue| before >= max_queue)
    }

    /// Do few enough wait before this request? It waits for nothing in the queue of a lock that its owner holds, or could
    /// have because those with FAIR have no room.
    fn may_join(&self, lock: Lock, ask: &Request) -> bool {
        let before = self.queue_of(lock).into_iter().filter(|one| counts_for(one, ask));
        let before = before.count() as u64;
        self.hold(lock, ask.owner).is_some()
            || ask.max_queue.is_none_or(|max_queue| before < max_queue)
            || self.what_keeps(lock, ask, (None, None), true).is_none()
    }

    fn is_right_about<T>(&self, locks: &[Lock], got: &Result<T, NotALock>) -> Verdict<bool> {
        let no_lock = locks.iter().any(|&lock| self.is_no_lock(lock));
        ensure(no_lock == got.is_err(), || {
            format!("{locks:?} is said to be a lock, or not to be")
        })?;
        Ok(!no_lock)
    }

    pub(super) fn released(
        &mut self,
        locks: &[Lock],
        owner: Owner,
        got: &Result<usize, NotALock>,
    ) -> Verdict {
        if !self.is_right_about(locks, got)? {
            return Ok(());
        }
        let (mut least, mut most) = (0, 0);
        for &lock in locks {
            let Some(hold) = self.remove(lock, owner) else {
                continue;
            };
            let knows = hold.told || !hold.under_way.is_empty() && hold.claim.is_none();
            least += usize::from(knows && !hold.is_loose);
            most += usize::from(knows || hold.is_loose);
        }
        ensure(got.as_ref().is_ok_and(|got| (least..=most).contains(got)), || {
            format!("{owner} releases {locks:?}: {got:?}, not {least} to {most}")
        })
    }

    pub(super) fn renewed(
        &mut self,
        locks: &[Lock],
        owner: Owner,
        ttl: Ms,
        got: &Result<bool, NotALock>,
    ) -> Verdict {
        if !self.is_right_about(locks, got)? {
            return Ok(());
        }
        let right = locks.iter().all(|&lock| self.hold(lock, owner).is_some());
        ensure(*got == Ok(right), || format!("{owner} renews {locks:?}: {got:?}, not {right}"))?;
        self.counted.renewed(*got == Ok(true), locks.len());
        if *got == Ok(true) {
            let end = self.now + ttl;
            let claims = self.claims_of(locks, owner);
            for &lock in locks {
                if let Some(hold) = self.hold_mut(lock, owner) {
                    hold.is_set_to(end);
                    hold.is_told();
                }
            }
            self.claimed(&claims);
        }
        Ok(())
    }

    pub(super) fn checked(
        &mut self,
        lock: Lock,
        owner: Owner,
        got: &Result<Option<Left>, NotALock>,
    ) -> Verdict {
        if !self.is_right_about(&[lock], got)? {
            return Ok(());
        }
        let now = self.now;
        let right = (self.hold(lock, owner)).map(|hold| left(hold.until, now));
        ensure(*got == Ok(right), || format!("{owner} checks {lock:?}: {got:?}, not {right:?}"))?;
        self.tell(lock, owner);
        Ok(())
    }

    pub(super) fn guarded(
        &mut self,
        lock: Lock,
        owner: Owner,
        got: &Result<bool, NotALock>,
    ) -> Verdict {
        if !self.is_right_about(&[lock], got)? {
            return Ok(());
        }
        let right = self.hold(lock, owner).is_some();
        ensure(*got == Ok(right), || format!("{owner} guards {lock:?}: {got:?}, not {right}"))?;
        self.counted.guarded(*got == Ok(true));
        self.tell(lock, owner);
        Ok(())
    }

    /// A reply has told the owner that it holds the lock.
    fn tell(&mut self, lock: Lock, owner: Owner) {
        // A place is claimed only by a command that returns its number.
        if let Some(hold) = self.hold_mut(lock, owner).filter(|hold| hold.claim.is_none()) {
            hold.is_told();
        }
    }

    /// Does this owner hold some of these, and not all?
    fn surely_holds_some(&self, locks: &[Lock], ask: &Request) -> bool {
        let hold = |&lock: &Lock| self.hold(lock, ask.owner).filter(|one| one.covers(ask.mode));
        let is_sure = |lock| hold(lock).is_some_and(|one| !one.may_go() && !one.is_loose);
        locks.iter().any(is_sure) && locks.iter().any(|lock| hold(lock).is_none())
    }

    /// An owner that asks for its place in time keeps it, whatever it gets as a reply.
    fn keeps_place(&mut self, locks: &[Lock], ask: &Request) {
        let place = self.new_place(ask);
        let now = self.now;
        let is_it = |one: &&mut Waiter| {
            let is_same =
                one.locks.len() == locks.len() && one.locks.iter().all(|lock| locks.contains(lock));
            let is_awake = one.place.is_some_and(|place| place.kept > now && !place.ends);
            one.ask.owner == ask.owner && one.ask.mode == ask.mode && is_same && is_awake
        };
        if let Some(one) = self.queue.iter_mut().find(is_it) {
            (one.ask, one.place) = (*ask, place);
            let since = one.since;
            self.is_to_hear_on(since, place);
        }
    }

    /// What has no end, and was not granted here, may be anything: it is spared, if no client insists.
    pub(super) fn broken(
        &mut self,
        lock: Lock,
        force: bool,
        got: &Result<usize, NotALock>,
    ) -> Verdict {
        if !self.is_right_about(&[lock], got)? {
            return Ok(());
        }
        let is_data = self
            .holders(lock)
            .any(|hold| hold.how == How::Exclusive && hold.until.is_none() && hold.fence.is_none());
        let is_spared = is_data && !force;
        let held = if is_spared { 0 } else { self.holders(lock).count() };
        // Because a client waits for it, it may have been given an end just before, like a hold.
        let may_be_adopted =
            is_spared && self.limits.orphan_ttl > 0 && !self.queue_of(lock).is_empty();
        ensure(*got == Ok(held) || may_be_adopted && *got == Ok(1), || {
            format!("{lock:?} is broken: {got:?}, not {held}")
        })?;
        if *got == Ok(0) {
            return Ok(());
        }
        self.tally.broken += 1;
        self.holds.retain(|hold| hold.lock != lock);
        Ok(())
    }
}

/// Is this one before that request, as MAXQUEUE counts? Before one with FAIR only those of its group are that have FAIR.
fn counts_for(one: &Waiter, ask: &Request) -> bool {
    let is_mate = one.ask.mode.is_fair() && group(one.ask.owner) == group(ask.owner);
    is_mate || !ask.mode.is_fair()
}
