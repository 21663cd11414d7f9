//! The search for deadlocks by itself, without keys and commands: random graphs against every order of release, and
//! large ones by the steps that they take.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::interleavings::orders::search::{
    Held, LOCKS, Owners, Request as Wanted, State, bit, group, try_every_order,
};
use super::interleavings::random::Random;
use super::interleavings::{first_seed, from_env};
use super::simulated::{self, SECRET};
use crate::lock::deadlock::steps::{Steps, TooLong};
use crate::lock::deadlock::{Claim, Deadlock};
use crate::lock::deadlock::{Holders, Snapshot};
use crate::lock::waiting::Waiting;
use crate::lock::words::{Hold, Mode, Ms, NameRef, Now, Patience, Request, Terms, Ticket};

const NOW: Now = Now::from_micros(1_000_000);

/// Who waits, and who holds what of that.
struct Graph(Waiting, ByKey);

/// How each lock is held, and by whom.
type ByKey = BTreeMap<Vec<u8>, (Hold, BTreeSet<Vec<u8>>)>;

impl Holders for ByKey {
    fn held(&self, lock: NameRef<'_>) -> Option<(Hold, usize)> {
        self.get(lock.key).map(|(hold, owners)| (*hold, owners.len()))
    }

    fn include(&self, lock: NameRef<'_>, owner: &[u8], _now: Now) -> bool {
        self.get(lock.key).is_some_and(|(_, owners)| owners.contains(owner))
    }

    fn each(&self, lock: NameRef<'_>, _now: Now, visit: &mut dyn FnMut(&[u8])) {
        let owners = self.get(lock.key).into_iter().flat_map(|(_, owners)| owners);
        owners.for_each(|owner| visit(owner));
    }
}

impl Graph {
    fn new() -> Self {
        Self(Waiting::new(SECRET), ByKey::new())
    }

    fn asks_until(&mut self, owner: &str, locks: &[(&str, Mode)], until: Option<Ms>) -> Ticket {
        let names: Vec<NameRef<'_>> =
            locks.iter().map(|(key, _)| NameRef::new(0, key.as_bytes(), SECRET)).collect();
        let request =
            simulated::Request { patience: Patience::Forever, ..simulated::Request::of("") }
                .for_core();
        let terms = Terms { owner: owner.as_bytes(), mode: locks[0].1, ..request.terms };
        let request = Request { terms, ..request };
        let group = self.0.waits.fair_group(terms.owner, terms.mode);
        self.0.enroll((&request, group), &names, (until, None), NOW)
    }

    fn asks(&mut self, owner: &str, locks: &[(&str, Mode)]) -> Ticket {
        self.asks_until(owner, locks, None)
    }

    /// This owner, which waits for something, holds the lock, for which another waits.
    fn holds(&mut self, owner: &str, key: &str) {
        let owners = BTreeSet::from([owner.into()]);
        self.1.insert(key.into(), (Hold::Exclusive, owners));
    }

    fn share(&mut self, owners: impl IntoIterator<Item = String>, key: &str) {
        let owners = owners.into_iter().map(String::into_bytes).collect();
        self.1.insert(key.into(), (Hold::Shared, owners));
    }

    fn search(&self, asks: Ticket, max_sharers: u64) -> (Result<Option<Deadlock>, TooLong>, usize) {
        let scene =
            Snapshot { waiting: &self.0, holds: &self.1, without: None, max_sharers, now: NOW };
        let mut steps = Steps::new();
        let found = scene.deadlock_of(asks, &mut steps);
        (found, steps.taken())
    }
}

const KEYS: [&str; LOCKS] = ["a", "b", "c"];
/// Every second is of one group.
const OWNERS: [&str; 7] = ["g:0", "h:1", "g:2", "h:3", "g:4", "h:5", "g:6"];
const MOST_SHARERS: u64 = 3;

/// What came of random graphs.
#[derive(Debug, Default)]
struct Tally {
    deadlocks: u64,
    /// It is stuck, but closes no deadlock: it stands behind one of others.
    behind: u64,
    served: u64,
    /// Deadlocks of those who stand before others, as a place does that has slept.
    woken: u64,
}

/// A graph, and the same as the naive search knows it.
struct Case {
    graph: Graph,
    state: State,
    wanted: Vec<Wanted>,
    tickets: Vec<Ticket>,
}

impl Case {
    fn random(random: &mut Random) -> Self {
        let (locks, owners) = (random.between(1, 3) as usize, random.between(2, 7) as usize);
        let mut case = Self {
            graph: Graph::new(),
            state: State::default(),
            wanted: Vec::new(),
            tickets: Vec::new(),
        };
        for held in &mut case.state.held[..locks] {
            let some: [Owners; 3] = [(); 3].map(|()| 1 << random.below(owners as u64));
            *held = match random.below(4) {
                0 => Held { by: some[0], alone: true },
                1 => Held::default(),
                _ => Held { by: some[0] | some[1] | some[2], alone: false },
            };
        }
        let mut left: Vec<usize> = (0..owners).filter(|_| !random.one_in(4)).collect();
        while !left.is_empty() {
            let owner = left.swap_remove(random.below(left.len() as u64) as usize);
            case.asks(owner, locks, random);
        }
        for (key, held) in KEYS.into_iter().zip(case.state.held) {
            if held.alone {
                case.graph.holds(OWNERS[held.by.trailing_zeros() as usize], key);
            } else if held.by != 0 {
                case.graph.share(named(held.by).map(|at| OWNERS[at].to_owned()), key);
            }
        }
        case
    }

    fn asks(&mut self, owner: usize, locks: usize, random: &mut Random) {
        let mut wanted = Wanted { owner: 1 << owner, locks: [None; LOCKS] };
        let some: Vec<usize> = (0..random.pick(&[1, 1, 1, 2, 3]))
            .map(|_| random.below(locks as u64) as usize)
            .collect();
        let shares = |&lock: &usize| {
            let held = self.state.held[lock];
            !held.alone && held.by & wanted.owner != 0
        };
        let mode = match random.below(6) {
            // No upgrade waits.
            0 | 1 if !some.iter().any(shares) => Mode::Exclusive,
            0..3 => Mode::Limit(MOST_SHARERS),
            most => Mode::Limit(most - 2),
        };
        // Those with FAIR ask for one lock.
        let is_one = some.iter().all(|lock| *lock == some[0]);
        let mode = if is_one && mode != Mode::Exclusive && random.one_in(2) {
            let limit = mode.room(MOST_SHARERS) as u16;
            Mode::Fair { limit, per: random.one_in(2).then(|| random.between(1, 2) as u16) }
        } else {
            mode
        };
        some.iter().for_each(|&lock| wanted.locks[lock] = Some(mode));
        let asked = match mode {
            Mode::Limit(MOST_SHARERS) if random.one_in(2) => Mode::Shared,
            mode => mode,
        };
        let asked: Vec<(&str, Mode)> = (KEYS.into_iter().zip(wanted.locks))
            .filter_map(|(key, mode)| mode.map(|_| (key, asked)))
            .collect();
        // The time of some is up, and none of their clients has been replied to.
        let is_up = random.one_in(12);
        let ticket = self.graph.asks_until(OWNERS[owner], &asked, is_up.then(|| NOW.ms()));
        if !is_up {
            self.state.left |= bit(self.wanted.len());
            self.wanted.push(wanted);
            self.tickets.push(ticket);
        }
    }

    /// Those of `stuck` that one of them waits for.
    fn next(&self, owner: usize, stuck: Owners) -> Vec<(usize, Claim, usize)> {
        let mut next = Vec::new();
        let Some(at) = self.wanted.iter().position(|one| one.owner == 1 << owner) else {
            return next;
        };
        for (lock, mode) in self.wanted[at].locks.into_iter().enumerate() {
            let (Some(mode), held) = (mode, self.state.held[lock]) else { continue };
            if held.by & (1 << owner) != 0 {
                continue;
            }
            let own_group = group(1 << owner);
            let is_mate = |one: &&Wanted| mode.is_fair() && group(one.owner) == own_group;
            let earlier = self.wanted[..at].iter().filter(|one| match one.locks[lock] {
                Some(Mode::Fair { .. }) => is_mate(one),
                wanted => wanted.is_some(),
            });
            let earlier_owners = earlier.clone().fold(0, |all, one| all | one.owner) & stuck;
            next.extend(named(earlier_owners).map(|one| (one, Claim::ComesFirst, lock)));
            // One with FAIR waits for what those of its group before it wait for too.
            let mates = earlier.filter(|one| one.owner & stuck != 0);
            let mates = mates.filter_map(|one| one.locks[lock]).filter(|mode| mode.is_fair());
            let all = mates.filter(|_| mode.is_fair()).chain([mode]);
            let room = all.clone().map(|mode| match mode {
                Mode::Limit(_) | Mode::Fair { .. } if !held.alone => mode.room(MOST_SHARERS),
                _ => 1,
            });
            let per = all.filter_map(|mode| match mode {
                Mode::Fair { per, .. } => per,
                _ => None,
            });
            let holders = held.by & stuck;
            let of_group = holders & own_group;
            if u64::from(holders.count_ones()) >= room.min().unwrap() {
                next.extend(named(holders).map(|one| (one, Claim::Holds, lock)));
            } else if per.min().is_some_and(|per| of_group.count_ones() >= per.into()) {
                next.extend(named(of_group).map(|one| (one, Claim::Holds, lock)));
            }
        }
        next
    }

    fn stuck(&self) -> Owners {
        let mut state = self.state;
        state.settle(&self.wanted, 0);
        let stuck = try_every_order(state, &self.wanted);
        assert_eq!(stuck.always, stuck.ever, "the order matters: {state:?}, {:?}", self.wanted);
        stuck.always
    }

    /// The length of the shortest way over those who are stuck.
    fn way_back(&self, owner: usize, stuck: Owners) -> Option<usize> {
        let (mut seen, mut to_visit) = (BTreeSet::new(), VecDeque::from([(owner, 0)]));
        while let Some((one, length)) = to_visit.pop_front() {
            for (next, ..) in self.next(one, stuck) {
                if next == owner {
                    return Some(length + 1);
                }
                if seen.insert(next) {
                    to_visit.push_back((next, length + 1));
                }
            }
        }
        None
    }

    fn judge(&self, asks: usize, stuck: Owners, tally: &mut Tally) {
        let owner = self.wanted[asks].owner.trailing_zeros() as usize;
        let is_stuck = stuck & (1 << owner) != 0;
        let way = self.way_back(owner, stuck).filter(|_| is_stuck);
        let (found, _) = self.graph.search(self.tickets[asks], MOST_SHARERS);
        let told = || {
            let (held, wanted) = (self.state.held, &self.wanted);
            format!("{}: {found:?}, right {way:?} in {held:?}, {wanted:?}", OWNERS[owner])
        };
        match (found.as_ref().unwrap(), way) {
            (Some(deadlock), Some(length)) => {
                let at = |name: &[u8], names: &[&str]| {
                    names.iter().position(|one| one.as_bytes() == name).unwrap()
                };
                let links: Vec<_> = (deadlock.links.iter())
                    .map(|link| (at(&link.owner, &OWNERS), link.next, at(&link.name.key, &KEYS)))
                    .collect();
                assert_eq!(links[0].0, owner, "{}", told());
                for (link, next) in links.iter().zip(links.iter().cycle().skip(1)) {
                    let is_so = self.next(link.0, stuck).contains(&(next.0, link.1, link.2));
                    assert!(is_so, "{link:?}: {}", told());
                }
                // A way that is certain at once may be longer than one over a limit.
                assert!(links.len() >= length && links.len() <= length + 2, "{}", told());
                tally.deadlocks += 1;
                tally.woken += u64::from(asks + 1 < self.wanted.len());
            }
            (None, None) if is_stuck => tally.behind += 1,
            (None, None) => tally.served += 1,
            _ => panic!("{}", told()),
        }
    }
}

fn named(owners: Owners) -> impl Iterator<Item = usize> {
    (0..OWNERS.len()).filter(move |&at| owners & (1 << at) != 0)
}

#[test]
fn who_is_stuck_whatever_the_order_and_waits_for_itself_is_in_a_deadlock_and_no_other() {
    let (first, graphs) = match from_env("LOCK_SEED") {
        Some(seed) => (seed, 1),
        None => (first_seed(0), from_env("LOCK_ROUNDS").unwrap_or(20_000)),
    };
    let mut tally = Tally::default();
    for seed in (0..graphs).map(|round| first.wrapping_add(round)) {
        let random = &mut Random::new(seed);
        let case = Case::random(random);
        let stuck = case.stuck();
        for asks in 0..case.wanted.len() {
            if asks + 1 == case.wanted.len() || random.one_in(3) {
                case.judge(asks, stuck, &mut tally);
            }
        }
    }
    eprintln!("{graphs} graphs from {first} on: {tally:?}");
    let few = graphs / 100;
    assert!(tally.served > 10 * few && tally.deadlocks > 5 * few, "{tally:?}");
    assert!(tally.behind > few && tally.woken > few, "{tally:?}");
}

/// So many keys, each wanted in this mode.
fn all_of(keys: &[String], mode: Mode) -> Vec<(&str, Mode)> {
    keys.iter().map(|key| (&**key, mode)).collect()
}

/// 190 requests for all of these keys, one behind another, and one behind them that waits for a lock aside: for most of
/// the keys too, if a mode is given.
fn crowd(keys: &[String], last: Option<Mode>) -> Graph {
    let mut graph = Graph::new();
    for number in 0..190 {
        graph.asks(&format!("w{number}"), &all_of(keys, Mode::Exclusive));
    }
    if let Some(mode) = last {
        let mut all = all_of(keys, mode);
        all[63].0 = "held";
        graph.asks("last", &all);
    } else {
        graph.asks("last", &[("held", Mode::Exclusive)]);
    }
    graph
}

const ALONE: Mode = Mode::Exclusive;

#[test]
fn a_crowd_for_many_keys_is_searched_to_its_end_in_as_many_steps_as_a_search_may_take() {
    let keys: Vec<String> = (0..64).map(|number| format!("k{number}")).collect();
    let asked = [(&*keys[7], ALONE)];
    let held_by_x = |last, held: &str| {
        let mut graph = crowd(&keys, last);
        graph.holds("x", held);
        graph
    };
    // No way leads back; one is certain, over the last of all; and over the first.
    for (mut graph, is_deadlock, most) in [
        (held_by_x(None, "held"), false, 15_000),
        (held_by_x(Some(ALONE), "held"), true, 15_000),
        (held_by_x(None, &keys[0]), true, 3_000),
    ] {
        let asks = graph.asks("x", &asked);
        let (found, steps) = graph.search(asks, 1000);
        let links = found.unwrap().map(|found| found.links.len());
        assert_eq!(links, is_deadlock.then_some(2));
        assert!(steps <= most, "{steps}");
    }
    // A way leads back, and it depends on the crowd whether that is a deadlock.
    for is_stuck in [true, false] {
        let mut graph = crowd(&keys, Some(Mode::Limit(2)));
        if is_stuck {
            graph.asks("y", &asked);
        }
        graph.share(["x", "y"].map(str::to_owned), "held");
        let asks = graph.asks("x", &asked);
        let (found, steps) = graph.search(asks, 1000);
        assert_eq!(found.unwrap().is_some(), is_stuck);
        assert!(steps <= 18_000, "{steps}");
    }
}

#[test]
fn of_thousands_of_limits_in_a_queue_the_most_demanding_is_found_in_few_steps() {
    for is_stuck in [true, false] {
        let mut graph = Graph::new();
        for number in 0..30_000 {
            graph.asks(&format!("w{number}"), &[("a", Mode::Limit(3))]);
        }
        graph.asks("low", &[("a", Mode::Limit(2))]);
        graph.asks("last", &[("a", Mode::Limit(3)), ("b", Mode::Limit(3))]);
        if is_stuck {
            graph.asks("y", &[("b", ALONE)]);
        }
        graph.share(["x", "y"].map(str::to_owned), "a");
        let asks = graph.asks("x", &[("b", ALONE)]);
        let (found, steps) = graph.search(asks, 1000);
        let links: Option<Vec<_>> = found.unwrap().map(|found| {
            let links = found.links.into_iter();
            links.map(|link| (String::from_utf8(link.owner.to_vec()).unwrap(), link.next)).collect()
        });
        let right = [("x", Claim::ComesFirst), ("last", Claim::ComesFirst), ("low", Claim::Holds)];
        let right = right.map(|(owner, next)| (owner.to_owned(), next)).to_vec();
        assert_eq!(links, is_stuck.then_some(right));
        assert!(steps <= 1_000, "{steps}");
    }
}
