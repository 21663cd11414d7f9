//! Follows what a server with a crowd before it writes and answers. Each step costs it no more than
//! the server: it knows of each lock who holds it and who comes first, and looks at no other client.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::lock::fence::Fence;
use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::{Content, Happened, Lock, Owner, Plea, Write};
use crate::lock::waiting::waits::waiter::State;
use crate::lock::{Acquired, Ahead, Hold, Mode, Ms, Patience, Refusal, Ticket};

use super::super::steps::LOCKS;
use super::names::owner_of;

/// One lock.
#[derive(Debug, Default)]
struct Place {
    alone: Option<(Owner, Ms)>,
    shares: HashMap<Owner, Ms>,
    ends: BTreeSet<(Ms, Owner)>,
    /// Those who wait.
    queue: BTreeSet<Ticket>,
    /// By owner.
    numbers: HashMap<Owner, Fence>,
}

#[derive(Debug)]
struct Asked {
    locks: Vec<Lock>,
    plea: Plea,
}

/// A wait that is over.
#[derive(Debug)]
pub struct Ended {
    pub plea: Plea,
    pub locks: Vec<Lock>,
    pub heard: bool,
}

#[derive(Debug, Default)]
pub struct Watch {
    places: HashMap<Lock, Place>,
    asked: HashMap<Ticket, Asked>,
    /// When whose time is up, of those who wait.
    times: BTreeSet<(Ms, Ticket)>,
    /// Those whose answer stands, and who have not had it.
    decided: BTreeMap<Ticket, State>,
    /// Those who wait for an answer, and what each owner asked for last.
    asking: HashSet<Owner>,
    modes: HashMap<Owner, Mode>,
    highest: Fence,
    /// Holds that are to go.
    to_return: Vec<(Lock, Owner, Hold)>,
    /// Who is letting go of what just now.
    withdraws: Option<(Owner, Vec<Lock>)>,
    /// How far the wall clock is ahead of the steady one: by it keys expire.
    ahead: Ahead,
    pub was_stepped: bool,
    /// Who could have had what they wait for, since when.
    late: HashMap<Ticket, Ms>,
    pub limited: u64,
    pub together: u64,
    pub longest: usize,
}

impl Place {
    fn drop_over(&mut self, now: Ms) {
        self.alone = self.alone.filter(|&(_, until)| until >= now);
        while let Some(&(until, owner)) = self.ends.first().filter(|end| end.0 < now) {
            self.ends.remove(&(until, owner));
            self.shares.remove(owner);
        }
    }

    fn share(&mut self, owner: Owner, until: Ms) {
        self.unshare(owner);
        self.shares.insert(owner, until);
        self.ends.insert((until, owner));
    }

    fn unshare(&mut self, owner: Owner) {
        if let Some(until) = self.shares.remove(owner) {
            self.ends.remove(&(until, owner));
        }
    }

    fn clear(&mut self) {
        self.alone = None;
        self.shares.clear();
        self.ends.clear();
    }

    /// Its key has. Too early, by a step of the clock, that ends no hold; but by so little it does.
    fn expires(&mut self, now: Ms) {
        let alone = self.alone.map(|(_, until)| until);
        let last = alone.or_else(|| self.ends.last().map(|&(until, _)| until));
        if last.is_some_and(|last| last < now + EARLY) {
            self.clear();
        }
    }

    fn hold_of(&self, owner: Owner) -> Option<Hold> {
        match self.alone {
            Some((holder, _)) => (holder == owner).then_some(Hold::Exclusive),
            None => self.shares.contains_key(owner).then_some(Hold::Shared),
        }
    }

    fn number_of(&self, owner: Owner) -> Option<Fence> {
        self.hold_of(owner)?;
        self.numbers.get(&owner).copied()
    }

    fn leave(&mut self, ticket: Ticket) {
        self.queue.remove(&ticket);
    }
}

/// So many who may have it together are served in portions; and after a step of the clock those who
/// share a lock are come to in portions.
const PORTIONS_TAKE: Ms = 2;
const STEPS_TAKE: Ms = 50;

/// A hold ends with its key if that goes less than so long before its time.
const EARLY: Ms = 2;

impl Watch {
    pub fn is_stepped(&mut self, by: Ahead) {
        self.ahead += by;
        self.was_stepped = true;
    }

    fn place(&mut self, lock: Lock, now: Ms) -> &mut Place {
        let place = self.places.entry(lock).or_default();
        place.drop_over(now);
        place
    }

    pub fn hold_of(&mut self, lock: Lock, owner: Owner, now: Ms) -> Option<Hold> {
        self.place(lock, now).hold_of(owner)
    }

    pub fn holds_any(&mut self, owner: Owner, now: Ms) -> bool {
        (LOCKS.iter()).any(|&lock| self.hold_of(lock, owner, now).is_some())
    }

    pub fn holders(&mut self, lock: Lock, now: Ms) -> Vec<Owner> {
        let place = self.place(lock, now);
        let alone = place.alone.map(|(owner, _)| owner);
        alone.into_iter().chain(place.shares.keys().copied()).collect()
    }

    pub fn is_asking(&self, owner: Owner) -> bool {
        self.asking.contains(owner)
    }

    /// Is it still in the queue?
    pub fn is_in_queue(&self, ticket: Ticket) -> bool {
        self.asked.contains_key(&ticket) && !self.decided.contains_key(&ticket)
    }

    /// One that has been granted what it wants, and has not heard of it.
    pub fn any_under_way(&self) -> Option<Ticket> {
        let mut decided = self.decided.iter();
        decided.find_map(|(&ticket, state)| matches!(state, State::Granted(_)).then_some(ticket))
    }

    pub fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// A client is about to ask.
    pub fn asks(&mut self, plea: Plea) {
        self.modes.insert(plea.owner, plea.mode);
    }

    /// This request was answered so; `held` is how its owner held each of the locks before.
    pub fn answered(
        &mut self,
        locks: &[Lock],
        plea: Plea,
        held: &[Option<Hold>],
        answer: &Result<Acquired, Refusal>,
        counts_more: bool,
        now: Ms,
    ) -> Verdict {
        match *answer {
            Ok(Acquired::Held(fence)) => self.held(locks, plea, held, fence, now),
            Ok(Acquired::Place(_)) => Err(format!("{plea:?} asks for no place")),
            Ok(Acquired::Waiting(ticket)) => {
                self.asking.insert(plea.owner);
                for &lock in locks {
                    let place = self.place(lock, now);
                    let shares = place.hold_of(plea.owner) == Some(Hold::Shared);
                    ensure(!shares || plea.mode != Mode::Exclusive, || {
                        format!("an upgrade waits: {plea:?}")
                    })?;
                    place.queue.insert(ticket);
                    let length = place.queue.len();
                    self.longest = self.longest.max(length);
                }
                if let Patience::Until(until) = plea.patience {
                    self.times.insert((until, ticket));
                }
                let locks = locks.to_vec();
                self.asked.insert(ticket, Asked { locks, plea });
                Ok(())
            }
            Ok(Acquired::Busy) => {
                let might = locks.iter().all(|&lock| {
                    self.first(lock, now).is_none() && self.fits(lock, plea, true, now)
                });
                // After a step of the clock shares that are over may count until they are come to.
                ensure(!might || counts_more, || format!("turned away from what is free: {plea:?}"))
            }
            Err(Refusal::Deadlock(_)) => Ok(()),
            Err(Refusal::NoUpgrade) => {
                let is_upgrade = held.contains(&Some(Hold::Shared)) && plea.mode == Mode::Exclusive;
                let might = locks.iter().all(|&lock| self.fits(lock, plea, true, now));
                ensure(is_upgrade && (!might || counts_more), || format!("no upgrade: {plea:?}"))
            }
            Err(ref other) => Err(format!("{plea:?}: {other:?}")),
        }
    }

    fn held(
        &mut self,
        locks: &[Lock],
        plea: Plea,
        held: &[Option<Hold>],
        fence: Fence,
        now: Ms,
    ) -> Verdict {
        let owner = plea.owner;
        let has_it = |hold: &Option<Hold>| {
            *hold == Some(Hold::Exclusive) || (hold.is_some() && *hold == Some(plea.mode.hold()))
        };
        let known: BTreeSet<Option<Fence>> =
            (locks.iter()).map(|&lock| self.place(lock, now).number_of(owner)).collect();
        let known = (held.iter().all(has_it) && known.len() == 1)
            .then(|| known.first().copied().flatten())
            .flatten();
        match known {
            Some(known) => ensure(fence == known, || {
                format!("{owner} asks again and gets {fence}, not {known}")
            })?,
            None => self.is_new(fence)?,
        }
        for (&lock, before) in locks.iter().zip(held) {
            let barged = before.is_none().then(|| self.first(lock, now)).flatten();
            ensure(barged.is_none(), || format!("{owner} gets {lock:?} before {barged:?}"))?;
        }
        self.now_holds(locks, plea, fence, now)
    }

    fn is_new(&mut self, fence: Fence) -> Verdict {
        let highest = std::mem::replace(&mut self.highest, fence);
        ensure(fence > highest, || format!("{fence} after {highest}"))
    }

    fn now_holds(&mut self, locks: &[Lock], plea: Plea, fence: Fence, now: Ms) -> Verdict {
        for &lock in locks {
            let place = self.place(lock, now);
            let hold = place.hold_of(plea.owner);
            place.numbers.insert(plea.owner, fence);
            let right = hold == Some(Hold::Exclusive) || hold == Some(plea.mode.hold());
            ensure(right, || format!("{plea:?} has {hold:?} of {lock:?}"))?;
        }
        Ok(())
    }

    /// What a server has done in one go.
    pub fn see(&mut self, happened: Happened, now: Ms) -> Verdict<Vec<Ended>> {
        let ended = self.see_it_all(happened, now);
        self.withdraws = None;
        ended
    }

    fn see_it_all(&mut self, happened: Happened, now: Ms) -> Verdict<Vec<Ended>> {
        ensure(happened.offences.is_empty(), || happened.offences.join(", "))?;
        let mut expired: HashSet<Lock> = happened.expired.iter().copied().collect();
        for write in happened.writes {
            match write {
                Write::Del(lock) if expired.remove(&lock) => self.place(lock, now).expires(now),
                write => self.written(write, now)?,
            }
        }
        for (ticket, state) in happened.decided {
            self.decide(ticket, state, now)?;
        }
        let ended = happened.ended.into_iter();
        ended.map(|(ticket, heard)| self.ended(ticket, heard)).collect()
    }

    fn written(&mut self, write: Write, now: Ms) -> Verdict {
        match write {
            Write::Set(lock, key) => {
                let Content::Token(token) = &key.content else {
                    return Err(format!("{lock:?}: {key:?}"));
                };
                let (owner, until) = (owner_of(token), self.steady(key.deadline.expect("an end")));
                let mut others = self.holders(lock, now);
                // A hand-over writes over a hold that is to go.
                others.retain(|&other| other != owner && !self.is_to_go(lock, other));
                // One whose key has gone too early has it again for a moment, to let go of it.
                others.retain(|&other| !self.is_withdrawn(other, &[lock]));
                ensure(others.is_empty(), || {
                    format!("{owner} holds {lock:?} alone, beside {others:?}")
                })?;
                let place = self.place(lock, now);
                place.clear();
                place.alone = Some((owner, until));
            }
            Write::ZAdd(lock, members) => {
                for (member, score) in members {
                    if let Some(until) = score.map(|until| self.steady(until)) {
                        self.shared(lock, owner_of(&member), until, now)?;
                    }
                }
            }
            Write::ZRem(lock, member) => self.place(lock, now).unshare(owner_of(&member)),
            // Those are over.
            Write::PExpireAt(lock, deadline) => {
                // No share outlasts another's end.
                let deadline = self.steady(deadline);
                if let Some((_, until)) = &mut self.place(lock, now).alone {
                    *until = deadline;
                }
            }
            Write::Del(lock) => self.place(lock, now).clear(),
            Write::Flush(db) => (self.places.iter_mut())
                .filter(|(lock, _)| db.is_none_or(|db| db == lock.0))
                .for_each(|(_, place)| place.clear()),
            Write::Persist(_) | Write::Rename(..) | Write::Swap(..) => {
                return Err(format!("no client has asked for {write:?}"));
            }
        }
        Ok(())
    }

    fn steady(&self, deadline: Ms) -> Ms {
        deadline.saturating_add_signed(-self.ahead)
    }

    fn shared(&mut self, lock: Lock, owner: Owner, until: Ms, now: Ms) -> Verdict {
        let mode = self.modes.get(owner).copied();
        // One whose key has gone too early has it again for a moment, to let go of it.
        let lets_go = self.is_withdrawn(owner, &[lock]);
        let place = self.place(lock, now);
        let alone = place.alone.filter(|&(holder, _)| holder != owner);
        ensure(alone.is_none(), || {
            format!("{owner} shares {lock:?} beside {alone:?}, who holds it alone")
        })?;
        place.alone = None;
        let others = place.shares.len() as u64;
        let comes_in = !place.shares.contains_key(owner);
        place.share(owner, until);
        if !comes_in || lets_go {
            return Ok(());
        }
        self.together += u64::from(others > 0);
        if let Some(Mode::Limit(most)) = mode {
            self.limited += 1;
            ensure(others < most, || {
                format!("{owner} wants {lock:?} beside fewer than {most}, not {others}")
            })?;
        }
        Ok(())
    }

    fn decide(&mut self, ticket: Ticket, state: State, now: Ms) -> Verdict {
        let before = self.decided.insert(ticket, state);
        ensure(before.is_none(), || format!("{ticket}: {before:?}, {state:?}"))?;
        let asked = self.asked.get(&ticket);
        let Asked { locks, plea } = asked.ok_or_else(|| format!("{ticket} has gone"))?;
        let (locks, plea) = (locks.clone(), *plea);
        let until = match plea.patience {
            Patience::Until(until) => Some(until),
            Patience::Try | Patience::Forever | Patience::Place(_) => None,
        };
        let is_up = until.is_some_and(|until| until <= now);
        match state {
            State::Granted(fence) => {
                ensure(!is_up, || format!("granted when its time was up: {plea:?}"))?;
                for &lock in &locks {
                    let first = self.first(lock, now);
                    ensure(first == Some(ticket), || {
                        format!("{ticket} gets {lock:?} before {first:?}")
                    })?;
                }
                self.is_new(fence)?;
                self.now_holds(&locks, plea, fence, now)?;
            }
            State::TimedOut => ensure(is_up, || format!("{plea:?}: not yet, at {now}"))?,
            State::Withdrawn => {
                let expected = self.is_withdrawn(plea.owner, &locks);
                ensure(expected, || format!("withdrawn: {plea:?}"))?;
            }
            State::Asleep | State::Waiting | State::Denied | State::SentAway | State::NoUpgrade => {
                return Err(format!("{plea:?}: {state:?}"));
            }
        }
        self.leaves(ticket, &locks, until);
        Ok(())
    }

    fn leaves(&mut self, ticket: Ticket, locks: &[Lock], until: Option<Ms>) {
        if let Some(until) = until {
            self.times.remove(&(until, ticket));
        }
        for lock in locks {
            if let Some(place) = self.places.get_mut(lock) {
                place.leave(ticket);
            }
        }
    }

    fn ended(&mut self, ticket: Ticket, heard: bool) -> Verdict<Ended> {
        let asked = self.asked.remove(&ticket);
        let Asked { locks, plea } = asked.ok_or_else(|| format!("{ticket} ends twice"))?;
        self.asking.remove(plea.owner);
        match self.decided.remove(&ticket) {
            Some(State::Granted(_)) if !heard => {
                let hold = plea.mode.hold();
                let gone = locks.iter().map(|&lock| (lock, plea.owner, hold));
                self.to_return.extend(gone);
            }
            Some(_) => {}
            None => {
                let until = match plea.patience {
                    Patience::Until(until) => Some(until),
                    Patience::Try | Patience::Forever | Patience::Place(_) => None,
                };
                self.leaves(ticket, &locks, until);
            }
        }
        Ok(Ended { plea, locks, heard })
    }

    /// The connection that this owner's hold ends with has closed.
    pub fn closed(&mut self, lock: Lock, owner: Owner, now: Ms) {
        if let Some(hold) = self.hold_of(lock, owner, now) {
            self.to_return.push((lock, owner, hold));
        }
    }

    fn is_to_go(&self, lock: Lock, owner: Owner) -> bool {
        (self.to_return.iter()).any(|gone| (gone.0, gone.1) == (lock, owner))
    }

    /// This owner is about to let go of these, and of all that it waits for there. Is anything of that
    /// granted and not told?
    pub fn lets_go(&mut self, owner: Owner, locks: &[Lock]) -> bool {
        self.withdraws = Some((owner, locks.to_vec()));
        (self.decided.iter()).any(|(ticket, state)| {
            let asked = self.asked.get(ticket);
            matches!(state, State::Granted(_))
                && asked.is_some_and(|asked| self.is_withdrawn(asked.plea.owner, &asked.locks))
        })
    }

    fn is_withdrawn(&self, owner: Owner, locks: &[Lock]) -> bool {
        let withdraws = self.withdraws.as_ref();
        withdraws
            .is_some_and(|(by, from)| *by == owner && locks.iter().any(|lock| from.contains(lock)))
    }

    /// This owner was told that it has let go of it.
    pub fn released(&mut self, lock: Lock, owner: Owner, now: Ms) {
        let place = self.place(lock, now);
        place.alone = place.alone.filter(|&(holder, _)| holder != owner);
        place.unshare(owner);
    }

    /// The first in the queue whose time is not up.
    fn first(&mut self, lock: Lock, now: Ms) -> Option<Ticket> {
        loop {
            let place = self.place(lock, now);
            let ticket = place.queue.first().copied()?;
            let Some(Asked { locks, plea }) = self.asked.get(&ticket) else {
                self.place(lock, now).leave(ticket);
                continue;
            };
            if matches!(plea.patience, Patience::Until(until) if until <= now) {
                // Only to be told so.
                let locks = locks.clone();
                for lock in locks {
                    self.place(lock, now).leave(ticket);
                }
                continue;
            }
            return Some(ticket);
        }
    }

    fn fits(&mut self, lock: Lock, plea: Plea, in_turn: bool, now: Ms) -> bool {
        let place = self.place(lock, now);
        if let Some((holder, _)) = place.alone {
            return holder == plea.owner;
        }
        let others = place.shares.len();
        if place.shares.contains_key(plea.owner) {
            return plea.mode != Mode::Exclusive || others == 1;
        }
        in_turn
            && match plea.mode {
                Mode::Exclusive => others == 0,
                Mode::Shared => true,
                Mode::Limit(most) => (others as u64) < most,
            }
    }

    /// Nothing is due now: no client waits who need not, and nothing is held that was to go.
    pub fn at_rest(&mut self, now: Ms) -> Verdict {
        let late = self.times.first().filter(|&&(until, _)| until <= now);
        ensure(late.is_none(), || format!("not told: {late:?} at {now}"))?;
        let before = std::mem::take(&mut self.late);
        for lock in LOCKS {
            let Some(ticket) = self.first(lock, now) else {
                continue;
            };
            let Asked { locks, plea } = &self.asked[&ticket];
            let (locks, plea) = (locks.clone(), *plea);
            let fits = locks.iter().all(|&lock| {
                let in_turn = self.first(lock, now) == Some(ticket);
                self.fits(lock, plea, in_turn, now)
            });
            if fits {
                let since = before.get(&ticket).copied().unwrap_or(now);
                self.late.insert(ticket, since);
                let takes = if self.was_stepped { STEPS_TAKE } else { PORTIONS_TAKE };
                ensure(now <= since + takes, || {
                    format!("could have {locks:?} since {since}: {plea:?}")
                })?;
            }
        }
        for (lock, owner, hold) in std::mem::take(&mut self.to_return) {
            ensure(self.hold_of(lock, owner, now) != Some(hold), || {
                format!("{owner} is gone, and holds {lock:?}")
            })?;
        }
        Ok(())
    }
}
