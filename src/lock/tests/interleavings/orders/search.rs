//! What comes of some owners, locks and requests by every order in which the locks may be let go of.
//!
//! It is naive on purpose, and shares no code with the search that it judges: owners and requests are
//! bits, and a state is who holds what and who still waits.

use std::collections::HashSet;

use crate::lock::Mode;

/// Owners, each a bit.
pub type Owners = u8;

/// The group of an owner: every second is of one.
pub fn group(owner: Owners) -> Owners {
    const EVEN: Owners = 0b0101_0101;
    if owner & EVEN != 0 { EVEN } else { !EVEN }
}

/// Requests, each a bit; the lower one came first.
pub type Requests = u32;

/// How many locks there are.
pub const LOCKS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub owner: Owners,
    /// How it wants each lock, if it does.
    pub locks: [Option<Mode>; LOCKS],
}

/// Who holds a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Held {
    pub by: Owners,
    pub alone: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub held: [Held; LOCKS],
    /// Those that still wait.
    pub left: Requests,
    /// Those of them that sleep: none waits for them, and their owners wait for nothing by them.
    pub asleep: Requests,
}

/// Who lets go of each lock.
pub type Ends = [Owners; LOCKS];

impl State {
    /// Those that stand in their queues.
    fn awake(&self) -> Requests {
        self.left & !self.asleep
    }

    /// Grants whatever may be granted now. These places fall asleep instead.
    pub fn settle(&mut self, requests: &[Request], deaf: Requests) {
        self.end_upgrades(requests);
        while let Some(next) = (0..requests.len()).find(|&next| self.may_have_all(requests, next)) {
            if deaf & bit(next) != 0 {
                self.asleep |= bit(next);
            } else {
                self.grant(requests[next], next);
            }
            self.end_upgrades(requests);
        }
    }

    /// Those wait no more whose owners have come to share what they want alone.
    fn end_upgrades(&mut self, requests: &[Request]) {
        let awake = (0..requests.len()).filter(|&at| self.awake() & bit(at) != 0);
        let ended = awake.filter(|&at| self.is_upgrade(requests[at]));
        self.left &= !ended.fold(0, |all, at| all | bit(at));
        // A place that sleeps ends when its owner comes by all of its locks otherwise.
        let asleep = (0..requests.len()).filter(|&at| self.asleep & bit(at) != 0);
        let held = asleep.filter(|&at| self.has_all(requests[at]));
        let ended = held.fold(0, |all, at| all | bit(at));
        (self.left, self.asleep) = (self.left & !ended, self.asleep & !ended);
    }

    fn has_all(&self, request: Request) -> bool {
        (self.held.iter().zip(request.locks)).all(|(held, wanted)| {
            let covers = held.alone || wanted != Some(Mode::Exclusive);
            wanted.is_none() || held.by & request.owner != 0 && covers
        })
    }

    /// Does its owner share a lock that it wants alone?
    pub fn is_upgrade(&self, request: Request) -> bool {
        (self.held.iter().zip(request.locks)).any(|(held, wanted)| {
            wanted == Some(Mode::Exclusive) && !held.alone && held.by & request.owner != 0
        })
    }

    /// Grants this request what it wants, if it may have it now. It does not wait.
    pub fn grant_at_once(&mut self, requests: &[Request], at: usize, deaf: Requests) -> bool {
        let before = *self;
        self.left |= bit(at);
        if !self.may_have_all(requests, at) {
            *self = before;
            return false;
        }
        self.grant(requests[at], at);
        self.settle(requests, deaf);
        true
    }

    fn may_have_all(&self, requests: &[Request], at: usize) -> bool {
        self.awake() & bit(at) != 0
            && (0..LOCKS)
                .filter(|&lock| requests[at].locks[lock].is_some())
                .all(|lock| self.may_have(requests, at, lock))
    }

    fn may_have(&self, requests: &[Request], at: usize, lock: usize) -> bool {
        let (held, request) = (self.held[lock], requests[at]);
        let mode = request.locks[lock];
        if held.alone {
            return held.by == request.owner;
        }
        if held.by & request.owner != 0 {
            return mode != Some(Mode::Exclusive) || held.by == request.owner;
        }
        self.has_room(request, lock) && !self.is_kept_waiting(requests, at, lock)
    }

    /// Do so few others share this lock that this request may?
    fn has_room(&self, request: Request, lock: usize) -> bool {
        let held = self.held[lock];
        let others = u64::from(held.by.count_ones());
        match request.locks[lock] {
            None | Some(Mode::Shared) => true,
            _ if held.alone => false,
            Some(Mode::Exclusive) => others == 0,
            Some(Mode::Limit(most)) => others < most,
            Some(Mode::Fair { limit, per }) => {
                let of_group = (held.by & group(request.owner)).count_ones();
                others < limit.into() && per.is_none_or(|per| of_group < per.into())
            }
        }
    }

    /// Does another come before this one in the queue? Those with FAIR come before others of their group, and before one
    /// without if they have room.
    fn is_kept_waiting(&self, requests: &[Request], at: usize, lock: usize) -> bool {
        let is_fair = |one: Request| one.locks[lock].is_some_and(Mode::is_fair);
        let own = requests[at];
        let mut earlier = (0..at).filter(|&one| self.awake() & bit(one) != 0);
        earlier.any(|other| {
            let one = requests[other];
            match one.locks[lock] {
                None => false,
                Some(_) if !is_fair(one) => true,
                Some(_) if is_fair(own) => group(one.owner) == group(own.owner),
                Some(_) => self.may_have(requests, other, lock),
            }
        })
    }

    fn grant(&mut self, request: Request, at: usize) {
        self.left &= !bit(at);
        for (lock, mode) in request.locks.into_iter().enumerate() {
            let Some(mode) = mode else { continue };
            let held = &mut self.held[lock];
            // Who holds a lock alone keeps it alone.
            if held.alone {
                continue;
            }
            if mode == Mode::Exclusive {
                *held = Held { by: request.owner, alone: true };
            } else {
                held.by |= request.owner;
            }
        }
    }

    /// These owners let go of these locks, in one instant.
    pub fn release(&mut self, requests: &[Request], ends: Ends, deaf: Requests) {
        for (held, ends) in self.held.iter_mut().zip(ends) {
            held.by &= !ends;
            held.alone &= held.by != 0;
        }
        self.settle(requests, deaf);
    }

    /// The same without this request, which is given up.
    pub fn without(mut self, request: Option<usize>) -> Self {
        let gone = request.map_or(0, bit);
        (self.left, self.asleep) = (self.left & !gone, self.asleep & !gone);
        self
    }

    /// Gives this request what it may have at once, beside another of its owner that waits.
    pub fn grants_beside(&mut self, requests: &[Request], at: usize, deaf: Requests) {
        self.left |= bit(at);
        self.grant(requests[at], at);
        self.settle(requests, deaf);
    }

    /// Those who wait for something.
    pub fn waiting(&self, requests: &[Request]) -> Owners {
        (requests.iter().enumerate())
            .filter(|&(at, _)| self.awake() & bit(at) != 0)
            .fold(0, |owners, (_, request)| owners | request.owner)
    }

    /// What may end next, if only those let go who wait for nothing: one hold, all of one lock (as by
    /// `DEL`, or a deadline that they share), or all of all.
    pub fn ends(&self, requests: &[Request]) -> Vec<Ends> {
        let waiting = self.waiting(requests);
        let all = self.held.map(|held| held.by & !waiting);
        let of = |lock: usize, owners: Owners| {
            let mut ends = Ends::default();
            ends[lock] = owners;
            ends
        };
        let mut found = Vec::new();
        for (lock, owners) in all.into_iter().enumerate() {
            let single = (0..Owners::BITS).map(|at| owners & (1 << at));
            found.extend(single.map(|owner| of(lock, owner)));
            if owners.count_ones() > 1 {
                found.push(of(lock, owners));
            }
        }
        found.retain(|ends| *ends != Ends::default());
        if all.iter().filter(|&&owners| owners != 0).count() > 1 {
            found.push(all);
        }
        found
    }
}

/// Who still waits for something when no client can let go of anything any more.
#[derive(Clone, Copy, Debug)]
pub struct Stuck {
    /// Whatever the order.
    pub always: Owners,
    /// By one order at least.
    pub ever: Owners,
    /// How many states there are on all ways.
    pub states: usize,
}

/// Tries every order.
pub fn try_every_order(state: State, requests: &[Request]) -> Stuck {
    let mut stuck = Stuck { always: Owners::MAX, ever: 0, states: 0 };
    let mut seen = HashSet::from([state]);
    let mut to_visit = vec![state];
    while let Some(state) = to_visit.pop() {
        stuck.states += 1;
        let ends = state.ends(requests);
        if ends.is_empty() {
            let waiting = state.waiting(requests);
            stuck.always &= waiting;
            stuck.ever |= waiting;
        }
        for ends in ends {
            let mut next = state;
            next.release(requests, ends, 0);
            if seen.insert(next) {
                to_visit.push(next);
            }
        }
    }
    stuck
}

pub fn bit(request: usize) -> Requests {
    1 << request
}
