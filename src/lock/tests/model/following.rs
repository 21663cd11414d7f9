//! What a server has done in one go: what came before the reply, the reply, and what came after.

use super::{Hold, Model, Verdict, Waiter, ensure};
use crate::lock::tests::interleavings::steps::LOCKS;
use crate::lock::tests::simulated::{Happened, Lock, Owner, Request, Server, name};
use crate::lock::waiting::waits::waiter::State;
use crate::lock::{Acquired, Left, Ms, NotALock, Refusal, Ticket};

/// What was done to the server, and what it replied.
#[derive(Clone, Copy, Debug)]
pub enum Action<'a> {
    /// Nothing that is replied to.
    Other,
    Acquire(&'a [Lock], &'a Request, &'a Result<Acquired, Refusal>),
    /// These waiters had been granted something, and not been replied to.
    Release(&'a [Lock], Owner, &'a Result<usize, NotALock>, &'a [Ticket]),
    Renew(&'a [Lock], Owner, Ms, &'a Result<bool, NotALock>),
    Check(Lock, Owner, &'a Result<Option<Left>, NotALock>),
    Guard(Lock, Owner, &'a Result<bool, NotALock>),
    Break(Lock, bool, &'a Result<usize, NotALock>),
}

impl Action<'_> {
    /// The locks that a command has settled: none, if one is no lock.
    fn settles(&self) -> &[Lock] {
        match self {
            Self::Acquire(_, _, Err(Refusal::NotALock(_))) => &[],
            Self::Acquire(locks, ..)
            | Self::Release(locks, _, Ok(_), _)
            | Self::Renew(locks, .., Ok(_)) => locks,
            Self::Guard(lock, _, Ok(_)) | Self::Break(lock, _, Ok(_)) => std::slice::from_ref(lock),
            _ => &[],
        }
    }
}

/// A waiter whose turn has come: it was granted what it waits for, or denied it, or its owner has come to share what
/// it wants alone.
pub type Turn = (Ticket, State);

/// Before which grant holds are given back, and of which locks.
#[derive(Clone, Debug)]
struct GivenBack {
    before: usize,
    of: Vec<Lock>,
}

/// What the world knows besides.
pub struct Around {
    /// Locks that can't be written, or that the core may not have come back to since they can.
    pub late: Vec<Lock>,
    /// Is nothing left to do now?
    pub rests: bool,
}

impl Model {
    /// Follows what the server did.
    pub fn follow(
        &mut self,
        server: &mut Server,
        happened: &Happened,
        action: Action<'_>,
        around: &Around,
    ) -> Verdict {
        ensure(happened.offences.is_empty(), || format!("{:?}", happened.offences))?;
        happened.closed.iter().for_each(|&client| self.closed(client));
        self.expired(&happened.expired, server);
        self.no_locks = LOCKS.into_iter().filter(|&lock| is_no_lock(server, lock)).collect();
        self.withdraws(action);
        self.gave_way = false;
        self.asked = match action {
            Action::Acquire(locks, ask, Ok(Acquired::Place(_))) => {
                let names: Vec<_> = locks.iter().map(|&lock| name(lock)).collect();
                server.locks.waiting.waits.place_of(ask.owner.as_bytes(), &names)
            }
            _ => None,
        };
        self.messages_are_heard(server)?;
        let places = self.places_now();
        let mut grants: Vec<Turn> = Vec::new();
        for &(ticket, state) in &happened.decided {
            match state {
                State::Granted(_) | State::Denied | State::NoUpgrade => {
                    grants.push((ticket, state));
                }
                other => self.decided(ticket, other, action)?,
            }
        }
        self.places_move(server, action, &places, &mut grants)?;
        let mut followed = None;
        let in_passing = self.granted_in_passing(server, action);
        for own in in_passing.into_iter().map(Some).chain([None]) {
            // What waiters were granted may have been before the action, or after it, and what has expired in
            // time was over by then, or not.
            let first = self.before_the_action(action, &grants);
            let others = (0..=grants.len()).rev().filter(|&before| before != first);
            for before in [first].into_iter().chain(others) {
                let (mut grants, mut before) = (grants.clone(), before);
                if let Some(own) = own {
                    grants.insert(before, own);
                    before += 1;
                }
                for (over, given_back) in self.may_be_over(action, grants.len()) {
                    let mut model = self.clone();
                    model.holds.retain(|hold| !(hold.is_early && over.contains(&hold.lock)));
                    model.wakes_in_passing(own);
                    let done = model
                        .does(action, &grants, before, given_back.as_ref())
                        .and_then(|()| model.sees(server, happened, action, around));
                    if done.is_ok() {
                        *self = model;
                        // Those behind a wait that was given up are served in the next tick.
                        let settles = if self.gave_way { &[] } else { action.settles() };
                        return self.has_settled(settles, around);
                    }
                    followed = followed.or(Some(done));
                }
            }
        }
        followed.unwrap_or(Ok(()))
    }

    /// Of which keys may the holds be over? Of none, of all that may have expired in time, or of some. And
    /// before which of so many grants may what was to be given back have been so, and of which locks? Each is looked
    /// at by itself, and one that can't be written has to wait.
    fn may_be_over(
        &self,
        action: Action<'_>,
        grants: usize,
    ) -> Vec<(Vec<Lock>, Option<GivenBack>)> {
        let early = |lock: &Lock| self.holders(*lock).any(|hold| hold.is_early);
        let over = any_of(LOCKS.into_iter().filter(early));
        let mut choices: Vec<_> = over.into_iter().map(|over| (over, None)).collect();
        let in_a_tick = matches!(action, Action::Other);
        let goes = |hold: &Hold| hold.is_given_back() && (in_a_tick || hold.is_loose);
        let goes = |lock: &Lock| self.holders(*lock).any(goes);
        let given_back = any_of(LOCKS.into_iter().filter(goes));
        // All of them, if that explains it.
        for of in given_back.into_iter().rev().filter(|of| !of.is_empty()) {
            for before in 0..grants.max(1) {
                choices.push((Vec::new(), Some(GivenBack { before, of: of.clone() })));
            }
        }
        choices
    }

    fn gives_back(&mut self, of: &[Lock]) {
        let goes = |hold: &mut Hold| hold.is_given_back() && of.contains(&hold.lock);
        self.holds.extract_if(.., goes).for_each(drop);
    }

    fn before_the_action(&self, action: Action<'_>, grants: &[Turn]) -> usize {
        match action {
            Action::Acquire(.., Ok(Acquired::Held(fence))) if *fence > self.highest => {
                let after = |grant: &Turn| matches!(grant.1, State::Granted(one) if one > *fence);
                // A retry of what a waiter of its owner has just been granted comes last.
                let is_retry = grants.iter().any(|grant| grant.1 == State::Granted(*fence));
                let after = grants.iter().position(after).filter(|_| !is_retry);
                after.unwrap_or(grants.len())
            }
            Action::Release(..) => 0,
            _ => grants.len(),
        }
    }

    /// So many grants come before the action.
    fn does(
        &mut self,
        action: Action<'_>,
        grants: &[Turn],
        before: usize,
        given_back: Option<&GivenBack>,
    ) -> Verdict {
        for at in 0..=grants.len() {
            if let Some(GivenBack { of, .. }) = given_back.filter(|given| given.before == at) {
                self.gives_back(of);
            }
            if at == before {
                self.did(action)?;
            }
            if let Some(&(ticket, state)) = grants.get(at) {
                self.turn_comes(ticket, state)?;
            }
        }
        Ok(())
    }

    fn did(&mut self, action: Action<'_>) -> Verdict {
        match action {
            Action::Other => Ok(()),
            Action::Acquire(locks, ask, got) => self.acquired(locks, ask, got),
            Action::Release(locks, owner, got, _) => self.released(locks, owner, got),
            Action::Renew(locks, owner, ttl, got) => self.renewed(locks, owner, ttl, got),
            Action::Check(lock, owner, got) => self.checked(lock, owner, got),
            Action::Guard(lock, owner, got) => self.guarded(lock, owner, got),
            Action::Break(lock, force, got) => self.broken(lock, force, got),
        }
    }

    fn sees(
        &mut self,
        server: &mut Server,
        happened: &Happened,
        action: Action<'_>,
        around: &Around,
    ) -> Verdict {
        for &(ticket, heard) in &happened.ended {
            self.ended(ticket, heard);
        }
        self.places_are_right(server, action)?;
        let replaced = std::mem::take(&mut self.replaced);
        ensure(replaced == happened.replaced, || {
            format!("{:?} were replaced, and not {replaced:?}", happened.replaced)
        })?;
        self.compare(server, &happened.expired)?;
        self.is_stepping = false;
        self.counted.compare(server)?;
        self.was_resting = around.rests && around.late.is_empty();
        if around.rests {
            self.rests(around)?;
            self.keys_are_there(server, around)?;
        }
        Ok(())
    }

    fn decided(&mut self, ticket: Ticket, state: State, action: Action<'_>) -> Verdict {
        let waiter = self.leaves(ticket)?;
        let right = match state {
            State::TimedOut => {
                self.counted.wait_timeouts += 1;
                !self.lives(&waiter)
            }
            State::SentAway => self.sends_away || self.limits.drain,
            State::Withdrawn => is_withdrawn(&waiter, action),
            _ => false,
        };
        ensure(right, || format!("{state:?} at {}: {waiter:?}", self.now))
    }

    /// A waiter has come to its end.
    pub(super) fn ended(&mut self, ticket: Ticket, heard: bool) {
        // A place may have taken over what a client was blocked for.
        if self.places().any(|(one, _)| one.since == ticket) {
            return;
        }
        // One whose connection closed waits no more.
        _ = self.leaves(ticket);
        self.served.retain(|waiter| waiter.ticket != ticket);
        (self.holds.iter_mut()).for_each(|hold| hold.ended(ticket, heard));
    }

    /// All that an owner has asked of what it releases ends: what waits, which gets its reply, and what it has
    /// been granted while no client has been told.
    fn withdraws(&mut self, action: Action<'_>) {
        let Action::Release(.., untold) = action else {
            return;
        };
        let granted = (self.served.iter())
            .filter(|one| untold.contains(&one.ticket) && is_withdrawn(one, action));
        let granted: Vec<Ticket> = granted.map(|one| one.ticket).collect();
        let waiting = self.queue.iter().filter(|one| is_withdrawn(one, action));
        self.tally.withdrawn += waiting.count() as u64;
        self.tally.withdrawn_late += granted.len() as u64;
        granted.iter().for_each(|&ticket| self.ended(ticket, false));
    }
}

/// None of these, each, and whichever together; all of them at the end.
fn any_of(locks: impl Iterator<Item = Lock>) -> Vec<Vec<Lock>> {
    let mut choices = vec![Vec::new()];
    for lock in locks {
        for at in 0..choices.len() {
            let mut with = choices[at].clone();
            with.push(lock);
            choices.push(with);
        }
    }
    choices
}

/// Is the key something that the core must leave alone?
fn is_no_lock(server: &Server, lock: Lock) -> bool {
    let key = server.keys.get(lock);
    key.is_some_and(|key| key.content.is_no_lock()) && !server.keys.is_expired(lock)
}

/// Does the owner of this one release what it waits for, or some of it?
fn is_withdrawn(waiter: &Waiter, action: Action<'_>) -> bool {
    let Action::Release(locks, owner, ..) = action else {
        return false;
    };
    waiter.ask.owner == owner && waiter.locks.iter().any(|lock| locks.contains(lock))
}
