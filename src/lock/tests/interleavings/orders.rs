//! The search for deadlocks against a naive one, which tries every order in which owners may let go.
//!
//! Small histories of requests and releases. Each request that has to wait is judged: by how many
//! orders would its owner come by all that it waits for?
//!
//! | by | the core |
//! |---|---|
//! | none, and it is this request that has done so | refuses it |
//! | all | does not refuse it |
//! | some | either is right, and both are counted |
//!
//! An owner lets go when it waits for nothing, of one lock after another, or together with all others
//! of a lock, or of all. An owner that is granted something goes on, and lets go too as soon as it waits for
//! nothing more.
//!
//! In every other history some wait in places. A place falls asleep if no client hears of its turn, and stands where
//! it stood when it wakes. It is judged then like one that comes.
//!
//! An owner that waits asks for the same once more, which takes its wait over; for the same locks in another mode, which
//! is judged as if its wait were gone; or for other locks, which is refused.
//!
//! A request for a lock alone that its owner shares does not wait: it is granted at once, or refused as an upgrade.

pub mod search;

use std::fmt;

use crate::lock::tests::model::{Verdict, ensure};
use crate::lock::tests::simulated::{self, Flavour, Lock, Owner, Server, told_on};
use crate::lock::tests::sums::sums;
use crate::lock::{Acquired, Mode, Ms, Patience, Refusal, Ticket};

use super::random::Random;
use super::{first_seed, from_env};

use search::{Ends, LOCKS, Owners, Request, Requests, State, bit, try_every_order};

const NAMES: [Lock; LOCKS] = [(0, "a"), (0, "b"), (0, "c")];
const OWNERS: [Owner; 5] = ["ann", "ben", "cid", "dot", "eve"];

/// The clock stands still, so this never ends.
const LONG: Ms = 1_000_000;

/// How many histories are tried, and how long each is.
const HISTORIES: u64 = 5000;
const STEPS: usize = 14;
const STEPS_WITH_PLACES: usize = 24;

sums! {
    /// What came of the requests that had to wait.
    struct Counts {
        judged: u64,
        states: usize,
        refused: u64,
        granted_by_all: u64,
        /// Granted by some orders: refused, and not.
        between_refused: u64,
        between_waiting: u64,
        /// Granted by none, but not because of this request alone: refused, and not.
        stuck_before_refused: u64,
        stuck_before_waiting: u64,
        /// Requests of those who share a lock to have it alone: granted at once, and refused.
        upgraded: u64,
        no_upgrades: u64,
        limits: u64,
        several: u64,
        /// Of owners that waited already: taken over, asked for in another mode, and refused because it is for other locks.
        taken_over: u64,
        other_modes: u64,
        one_waits: u64,
        /// In places.
        places: u64,
        /// Places that slept and woke, and requests that were refused because of their owners.
        woken: u64,
        kept_asleep: u64,
        over_woken: u64,
    }
}

/// A server, and the same once more as the naive search knows it.
struct Graph {
    server: Server,
    state: State,
    requests: Vec<Request>,
    tickets: Vec<Option<Ticket>>,
    /// Those that wait in places, or did, and those of them that have been claimed.
    places: Requests,
    claimed: Requests,
    /// Owners that hear of no turn, and of places that have slept and woken.
    deaf: Owners,
    woken: Owners,
    counts: Counts,
}

impl Graph {
    fn new() -> Self {
        Self {
            server: Server::new(Flavour::default(), &NAMES),
            state: State::default(),
            requests: Vec::new(),
            tickets: Vec::new(),
            places: 0,
            claimed: 0,
            deaf: 0,
            woken: 0,
            counts: Counts::default(),
        }
    }

    fn ask(&mut self, request: Request, in_place: bool) -> Verdict {
        let at = self.requests.len();
        let mut with = self.requests.clone();
        with.push(request);
        if self.state.is_upgrade(request) {
            return self.upgrades(request, in_place, with);
        }
        let own = self.wait_of(request.owner);
        let base = self.state.without(own);
        if base.clone().grant_at_once(&with, at, self.deaf_places()) {
            let held = self.ask_the_server(request, in_place);
            ensure(matches!(held, Ok(Acquired::Held(_))), || {
                format!("{held:?}: {}", self.told(request))
            })?;
            self.state.grants_beside(&with, at, self.deaf_places());
            self.requests = with;
            self.tickets.push(None);
            return self.agrees();
        }
        let is_for = |one: usize, lock: usize| self.requests[one].locks[lock].is_some();
        let is_same = |&own: &usize| {
            (0..LOCKS).all(|lock| is_for(own, lock) == request.locks[lock].is_some())
        };
        let same = own.filter(is_same);
        if own.is_some() && same.is_none() {
            let refused = self.ask_the_server(request, in_place);
            ensure(matches!(refused, Err(Refusal::OneWait(_))), || {
                format!("{refused:?}: {}", self.told(request))
            })?;
            self.counts.one_waits += 1;
            return self.agrees();
        }
        if let Some(own) = same.filter(|&own| self.requests[own].locks == request.locks) {
            return self.takes_over(own, request, in_place);
        }
        let mut next = base;
        next.left |= bit(at);
        next.settle(&with, self.deaf_places());
        let waits = next.left & bit(at) != 0;
        let answer = self.ask_the_server(request, in_place);
        let ticket = match answer {
            Ok(Acquired::Waiting(ticket)) => Some(ticket),
            _ => None,
        };
        match answer {
            // Those behind the wait that is given up are served in the next tick, and this one with them.
            Ok(Acquired::Place(_)) if !waits && in_place => self.places |= bit(at),
            Ok(Acquired::Waiting(_)) if !waits && !in_place => {}
            Ok(Acquired::Waiting(_)) if waits && !in_place => {
                self.judge(request, false, base, next, &with)?;
            }
            Ok(Acquired::Place(_)) if waits && in_place => {
                self.judge(request, false, base, next, &with)?;
                self.counts.places += 1;
                self.places |= bit(at);
            }
            Err(Refusal::Deadlock(_)) if waits => {
                self.judge(request, true, base, next, &with)?;
                return self.agrees();
            }
            other => return Err(format!("{other:?}: {}", self.told(request))),
        }
        self.counts.other_modes += u64::from(own.is_some());
        self.places &= !own.map_or(0, bit);
        self.requests = with;
        self.state = next;
        self.tickets.push(ticket.filter(|_| waits));
        self.agrees()
    }

    /// The request by which this owner waits, if only in a place that sleeps.
    fn wait_of(&self, owner: Owners) -> Option<usize> {
        (0..self.requests.len())
            .find(|&at| self.state.left & bit(at) != 0 && self.requests[at].owner == owner)
    }

    /// An owner that waits asks for the same once more.
    fn takes_over(&mut self, own: usize, request: Request, in_place: bool) -> Verdict {
        match self.ask_the_server(request, in_place) {
            Ok(Acquired::Waiting(ticket)) if !in_place => {
                self.tickets[own] = Some(ticket);
                self.places &= !bit(own);
            }
            Ok(Acquired::Place(_)) if in_place => {
                self.tickets[own] = None;
                self.places |= bit(own);
            }
            other => return Err(format!("{other:?}: {}", self.told(request))),
        }
        self.counts.taken_over += 1;
        self.agrees()
    }

    /// This request is granted at once or refused, because its owner shares what it wants alone.
    fn upgrades(&mut self, request: Request, in_place: bool, with: Vec<Request>) -> Verdict {
        let at = with.len() - 1;
        let base = self.state.without(self.wait_of(request.owner));
        let is_granted = !in_place
            && !self.waits_beside(request)
            && base.clone().grant_at_once(&with, at, self.deaf_places());
        let mut next = self.state;
        if is_granted {
            next.grants_beside(&with, at, self.deaf_places());
        }
        match self.ask_the_server(request, in_place) {
            Ok(Acquired::Held(_)) if is_granted => {
                self.counts.upgraded += 1;
                self.requests = with;
                self.state = next;
                self.tickets.push(None);
            }
            Err(Refusal::NoUpgrade) if !is_granted => self.counts.no_upgrades += 1,
            other => return Err(format!("{other:?}: {}", self.told(request))),
        }
        self.agrees()
    }

    /// Does its owner wait for another lock too, be it in a place that sleeps?
    fn waits_beside(&self, request: Request) -> bool {
        (self.requests.iter().enumerate()).any(|(at, one)| {
            let is_other = |lock: usize| one.locks[lock].is_some() && request.locks[lock].is_none();
            self.state.left & bit(at) != 0 && one.owner == request.owner && (0..LOCKS).any(is_other)
        })
    }

    fn ask_the_server(&mut self, request: Request, in_place: bool) -> Result<Acquired, Refusal> {
        let locks: Vec<Lock> = (0..LOCKS)
            .filter(|&lock| request.locks[lock].is_some())
            .map(|lock| NAMES[lock])
            .collect();
        let owner = OWNERS[request.owner.trailing_zeros() as usize];
        // Each has a channel of its own.
        let on_its_channel = told_on(Some((owner, owner)), LONG);
        let asked = simulated::Request {
            ttl: LONG,
            mode: request.locks.iter().flatten().next().copied().unwrap(),
            patience: if in_place { on_its_channel } else { Patience::Forever },
            client: self.server.connect(),
            ..simulated::Request::of(owner)
        };
        self.server.acquire_all(&locks, asked)
    }

    /// This owner's places that wait.
    fn places_of(&self, owner: Owners) -> Requests {
        let its = (self.requests.iter().enumerate()).filter(|(_, one)| one.owner == owner);
        its.fold(0, |all, (at, _)| all | bit(at)) & self.places & self.state.left
    }

    /// Is this a place, and for some of the same locks and others?
    fn overlaps_a_place(&self, own: usize, request: Request) -> bool {
        let asks = |request: Request, lock: usize| request.locks[lock].is_some();
        let own_request = self.requests[own];
        let is_same = (0..LOCKS).all(|lock| asks(own_request, lock) == asks(request, lock));
        let is_any = (0..LOCKS).any(|lock| asks(own_request, lock) && asks(request, lock));
        self.places & bit(own) != 0 && is_any && !is_same
    }

    /// May it wait in a place? Not for what its owner holds.
    fn may_have_place(&self, request: Request) -> bool {
        let is_held = |lock: usize| {
            request.locks[lock].is_some() && self.state.held[lock].by & request.owner != 0
        };
        !(0..LOCKS).any(is_held)
    }

    /// Places that sleep when their turns come, because no client hears of that.
    fn deaf_places(&self) -> Requests {
        let is_deaf = |&(_, one): &(usize, &Request)| one.owner & self.deaf != 0;
        let deaf = self.requests.iter().enumerate().filter(is_deaf);
        deaf.fold(0, |all, (at, _)| all | bit(at)) & self.places
    }

    /// From now on no client listens on this owner's channel, or one does.
    fn is_deaf(&mut self, owner: Owners, deaf: bool) {
        let channel = OWNERS[owner.trailing_zeros() as usize];
        if deaf {
            self.server.deaf.insert(channel.to_owned());
            self.deaf |= owner;
        } else {
            self.server.deaf.remove(channel);
            self.deaf &= !owner;
        }
    }

    /// The owner of this place, which sleeps, asks for it again.
    fn wakes(&mut self, at: usize) -> Verdict {
        let request = self.requests[at];
        self.is_deaf(request.owner, false);
        let mut next = self.state;
        next.asleep &= !bit(at);
        next.settle(&self.requests, self.deaf_places());
        let waits = next.left & bit(at) != 0;
        let requests = self.requests.clone();
        match self.ask_the_server(request, true) {
            Ok(Acquired::Place(_)) if waits => {
                self.judge(request, false, self.state, next, &requests)?;
                self.counts.woken += 1;
                self.woken |= request.owner;
                self.state = next;
            }
            Ok(Acquired::Held(_)) if !waits => {
                self.claimed |= bit(at);
                self.state = next;
            }
            Err(Refusal::Deadlock(_)) if waits => {
                self.judge(request, true, self.state, next, &requests)?;
                self.counts.kept_asleep += 1;
            }
            other => return Err(format!("{other:?}: {}", self.told(request))),
        }
        self.agrees()
    }

    /// Those that have had their turn retry.
    fn claims(&mut self) -> Verdict {
        for at in 0..self.requests.len() {
            // One that is over as an upgrade has had no turn.
            if self.state.is_upgrade(self.requests[at]) {
                self.places &= !bit(at);
            }
            if self.places & !self.state.left & !self.claimed & bit(at) != 0 {
                let got = self.ask_the_server(self.requests[at], true);
                ensure(matches!(got, Ok(Acquired::Held(_))), || {
                    format!("{} claims it: {got:?}: {self}", in_words(self.requests[at]))
                })?;
                self.claimed |= bit(at);
            }
        }
        Ok(())
    }

    /// Do the same places wait here and there, and do the same of them sleep?
    fn places_agree(&mut self) -> Verdict {
        let waits = |at: &usize| self.places & self.state.left & bit(*at) != 0;
        for at in (0..self.requests.len()).filter(waits).collect::<Vec<_>>() {
            let request = self.requests[at];
            let owner = OWNERS[request.owner.trailing_zeros() as usize].as_bytes();
            let right = Some(self.state.asleep & bit(at) != 0);
            for lock in (0..LOCKS).filter(|&lock| request.locks[lock].is_some()) {
                let report = self.server.report(NAMES[lock]).ok().flatten();
                let mut shown = report.iter().flat_map(|report| &report.waiters);
                let shown = shown.find(|one| *one.owner == *owner && one.place.is_some());
                let shown = shown.and_then(|one| one.place).map(|place| place.asleep);
                ensure(shown == right, || {
                    format!("asleep {shown:?}, and not {right:?}: {} in {self}", in_words(request))
                })?;
            }
        }
        Ok(())
    }

    /// Was it right to refuse this request, or not to? The graph was this, and would be this with it.
    fn judge(
        &mut self,
        request: Request,
        refused: bool,
        base: State,
        with: State,
        all: &[Request],
    ) -> Verdict {
        let owner = request.owner;
        let before = try_every_order(base, &self.requests);
        let after = try_every_order(with, all);
        self.count(request, after.states);
        let told = || self.told(request);
        // Others may have been stuck before, by one order or other.
        let sure = before.ever == 0;
        let counts = &mut Counts::default();
        match (after.always & owner != 0, after.ever & owner != 0) {
            (true, _) if sure => {
                ensure(refused, || format!("no order grants it: {}", told()))?;
                counts.refused += 1;
                counts.over_woken += u64::from(after.always & self.woken & !owner != 0);
            }
            (true, _) if refused => counts.stuck_before_refused += 1,
            (true, _) => counts.stuck_before_waiting += 1,
            (false, true) if refused => counts.between_refused += 1,
            (false, true) => counts.between_waiting += 1,
            (false, false) => {
                ensure(!refused, || format!("refused, and every order grants it: {}", told()))?;
                counts.granted_by_all += 1;
            }
        }
        ensure(refused || !sure || after.always == 0, || {
            let stuck: Vec<Owner> = named(after.always).collect();
            format!("not refused, and now {stuck:?} wait indefinitely: {}", told())
        })?;
        self.counts += *counts;
        Ok(())
    }

    fn count(&mut self, request: Request, states: usize) {
        let several = request.locks.iter().flatten().count() > 1;
        let counts = &mut self.counts;
        counts.judged += 1;
        counts.states += states;
        let is_limit = |mode: &Option<Mode>| matches!(mode, Some(Mode::Limit(_)));
        counts.limits += u64::from(request.locks.iter().any(is_limit));
        counts.several += u64::from(several);
    }

    fn release(&mut self, ends: Ends) -> Verdict {
        for lock in 0..LOCKS {
            for name in named(ends[lock]) {
                let released = self.server.release(NAMES[lock], name);
                ensure(released == Ok(true), || format!("{name} held {lock}: {self}"))?;
            }
        }
        self.state.release(&self.requests, ends, self.deaf_places());
        self.agrees()
    }

    /// Do the same requests still wait here and there?
    fn agrees(&mut self) -> Verdict {
        // A place that is passed by takes a turn.
        loop {
            self.server.tick();
            self.server.turn();
            if self.server.due().is_none_or(|due| due > self.server.now().ms()) {
                break;
            }
        }
        self.claims()?;
        let waiting = self.server.waiting();
        let mut left: Vec<Ticket> = (self.tickets.iter().enumerate())
            .filter(|&(at, _)| self.state.left & bit(at) != 0)
            .filter_map(|(_, ticket)| *ticket)
            .collect();
        left.sort_unstable();
        ensure(waiting == left, || format!("{waiting:?} wait on, and not {left:?}: {self}"))?;
        self.places_agree()
    }

    fn told(&self, request: Request) -> String {
        format!("{} asks in {self}", in_words(request))
    }
}

/// Such as `ann holds a alone, ben wants a+b as Shared`.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        for (held, name) in self.state.held.iter().zip(NAMES) {
            let how = if held.alone { "alone" } else { "shared" };
            parts.extend(named(held.by).map(|owner| format!("{owner} holds {} {how}", name.1)));
        }
        let left = (self.requests.iter().enumerate())
            .filter(|&(at, _)| self.state.left & bit(at) != 0)
            .map(|(at, request)| {
                let is_in = |some: Requests| some & bit(at) != 0;
                let asleep = if is_in(self.state.asleep) { ", which sleeps" } else { "" };
                let place = if is_in(self.places) { " in a place" } else { "" };
                format!("{}{place}{asleep}", in_words(*request))
            });
        parts.extend(left);
        f.write_str(&parts.join(", "))
    }
}

fn in_words(request: Request) -> String {
    let locks: Vec<String> = (NAMES.iter().zip(request.locks))
        .filter_map(|(name, wanted)| Some(format!("{} {:?}", name.1, wanted?)))
        .collect();
    let owner: String = named(request.owner).collect();
    format!("{owner} wants {}", locks.join("+"))
}

fn named(owners: Owners) -> impl Iterator<Item = Owner> {
    (0..OWNERS.len()).filter(move |&at| owners & (1 << at) != 0).map(|at| OWNERS[at])
}

fn is_of_one(ends: &Ends) -> bool {
    ends.iter().map(|owners| owners.count_ones()).sum::<u32>() == 1
}

/// A history, by this seed.
fn live(seed: u64) -> Verdict<Counts> {
    let mut random = Random::new(seed);
    let owners = random.between(4, 5);
    let locks = random.between(2, 3);
    // One in so many asks for several locks, for a share, while it waits.
    let several = random.pick(&[2, 4]);
    let shared = random.pick(&[1, 2, 4]);
    let again = random.pick(&[2, 8]);
    let has_places = seed % 2 == 1;
    let mut graph = Graph::new();
    for _ in 0..if has_places { STEPS_WITH_PLACES } else { STEPS } {
        let asleep: Vec<usize> =
            (0..graph.requests.len()).filter(|&at| graph.state.asleep & bit(at) != 0).collect();
        if !asleep.is_empty() && random.one_in(2) {
            graph.wakes(random.pick(&asleep))?;
            continue;
        }
        let mut ends = graph.state.ends(&graph.requests);
        ends.retain(is_of_one);
        if random.one_in(8) && !ends.is_empty() {
            graph.release(random.pick(&ends))?;
            continue;
        }
        let owner: Owners = 1 << random.below(owners);
        if graph.places_of(owner) != 0 && random.one_in(2) {
            graph.is_deaf(owner, true);
        }
        let own = graph.wait_of(owner);
        let sleeps = own.is_some_and(|own| graph.state.asleep & bit(own) != 0);
        if sleeps || own.is_some() && !random.one_in(again) {
            continue;
        }
        let mode = |random: &mut Random| match random.below(4) {
            _ if !random.one_in(shared) => Mode::Exclusive,
            0 | 1 => Mode::Shared,
            2 => Mode::Limit(random.between(1, 3)),
            _ => Mode::Exclusive,
        };
        let mut request = Request { owner, locks: [None; LOCKS] };
        let mode = mode(&mut random);
        let some = if random.one_in(several) { 2 } else { 1 };
        for _ in 0..some {
            let lock = random.below(locks) as usize;
            request.locks[lock] = Some(mode);
        }
        // Mostly for the same locks, and sometimes in the same mode.
        if let Some(own) = own.filter(|_| !random.one_in(3)) {
            let same = graph.requests[own];
            request.locks = same.locks.map(|wanted| wanted.map(|_| mode));
            if random.one_in(3) {
                request = same;
            }
        }
        // What it comes to hold of a place's locks would end the place.
        if own.is_some_and(|own| graph.overlaps_a_place(own, request)) {
            continue;
        }
        let in_place = has_places && random.one_in(2) && graph.may_have_place(request);
        graph.ask(request, in_place)?;
    }
    Ok(graph.counts)
}

#[test]
fn a_request_is_refused_if_no_order_of_release_grants_it_and_only_then() {
    let mut counts = Counts::default();
    let mut failed = Vec::new();
    let replayed = from_env("LOCK_SEED");
    let (first, histories) = replayed.map_or((first_seed(0), HISTORIES), |seed| (seed, 1));
    for seed in (0..histories).map(|round| first.wrapping_add(round)) {
        match live(seed) {
            Ok(some) => counts += some,
            Err(why) => failed.push(format!("{why}; replay with LOCK_SEED={seed}")),
        }
    }
    eprintln!("{histories} histories from {first} on: {counts:?}");
    assert!(failed.is_empty(), "{}:\n{}", failed.len(), failed.join("\n"));
    if replayed.is_some() || first != 0 {
        return;
    }
    // Nothing that is there to be judged may be rare, and what is not judged must be.
    assert!(counts.judged >= 20_000, "{counts:?}");
    assert!(counts.refused >= counts.judged / 10, "{counts:?}");
    for some in
        [counts.upgraded, counts.no_upgrades, counts.limits, counts.several, counts.other_modes]
    {
        assert!(some >= counts.judged / 40, "{counts:?}");
    }
    assert!(counts.places >= counts.judged / 10, "{counts:?}");
    assert!(counts.woken >= counts.judged / 100, "{counts:?}");
    assert!(counts.over_woken >= 20, "{counts:?}");
    let unsure = counts.between_refused
        + counts.between_waiting
        + counts.stuck_before_refused
        + counts.stuck_before_waiting;
    assert!(unsure <= counts.judged / 1000, "{counts:?}");
}
