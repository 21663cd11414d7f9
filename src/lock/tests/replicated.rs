//! `REPLICAS n` on three nodes: a master and two replicas, of which one may be promoted while the master is cut off and
//! goes on. What owners are told is judged by what the replicas have in their keys, and by nothing inside:
//!
//! - an owner hears of a hold, and of its end, when n replicas have acknowledged both;
//! - until then it does not have it, and to all others it is held; it hears as soon as they have, or `NoReplicas` at
//!   the deadline, and then it is given back;
//! - whichever replica is promoted knows each hold that was told after both have acknowledged it, and after one, if that
//!   is the one: no two owners are told of one lock at a time.
//!
//! | file | idea |
//! |---|---|
//! | `nodes` | the nodes, and what can be done |
//! | `book` | what was told, and whether that was right |
//!
//! Random histories, and all of a small world; `LOCK_SEED`, `LOCK_ROUNDS` and `LOCK_FROM` as for the others.

mod book;
mod nodes;

use std::collections::{BTreeSet, VecDeque};

use crate::lock::Ms;
use crate::lock::tests::explore::fingerprint::Reader;
use crate::lock::tests::model::Verdict;

use super::interleavings::random::Random;
use super::interleavings::{Failure, first_seed, from_env, lives, tell};
use super::simulated::Flavour;
use nodes::{Nodes, OWNERS, Step, Wait};

const STEPS: usize = 150;
const ROUNDS: u64 = 400;

/// Some step. `n` is how many replicas are mostly asked for.
fn any(random: &mut Random) -> Step {
    let owner = random.below(OWNERS.len() as u64) as usize;
    let replicas = random.pick(&[0, 1, 1, 2, 2, 2]);
    let ttl = random.between(2, 60);
    let (lock, replica) = (random.pick(&[0, 0, 0, 1]), random.below(2) as usize);
    let n = random.below(8) as usize;
    match random.below(100) {
        0..=23 => {
            let wait = match random.below(8) {
                0..=2 => Wait::Try,
                3 | 4 => Wait::Forever,
                5 => Wait::For(random.between(1, 60)),
                _ => Wait::Place(random.between(10, 90)),
            };
            // A place for both is claimed by a request for one of them, which says nothing of the other.
            let both = random.one_in(6) && !matches!(wait, Wait::Place(_));
            let shared = random.one_in(5);
            Step::Ask { owner, lock, both, ttl, wait, replicas, shared }
        }
        24..=29 => Step::Renew { owner, lock, ttl, replicas },
        30..=37 => Step::Release { owner, lock },
        38..=41 => Step::Check { owner, lock },
        42 => Step::Guard { owner, lock },
        43 => Step::Del { lock },
        44 => Step::Break { lock },
        45..=58 => Step::Hear { replica, most: random.between(1, 6) as usize },
        59..=72 => Step::Acknowledge { replica },
        73 => Step::Leave { replica },
        74..=76 => Step::Come { replica },
        77..=84 => Step::Turn,
        85..=91 => Step::Pass(random.between(1, 12)),
        92 => Step::Late(random.between(1, 40)),
        93 => Step::Kill(n),
        94 => Step::Unblock(n),
        95 if random.one_in(3) => Step::Pause,
        95 | 96 => Step::Resume,
        97 if random.one_in(3) => Step::Demote,
        98 if random.one_in(2) => Step::Promote { replica },
        97 | 98 => Step::Turn,
        _ => Step::AskOld { owner, lock, replicas },
    }
}

fn history(seed: u64) -> (Flavour, Ms, Vec<Step>) {
    use super::simulated::Answers::{Kept, Late, Straight};
    let mut random = Random::new(seed);
    let answers = random.pick(&[Straight, Kept, Late]);
    let flavour = Flavour { answers, says_how: random.one_in(2), ..Flavour::default() };
    let timeout = random.pick(&[5, 20, 50]);
    (flavour, timeout, (0..STEPS).map(|_| any(&mut random)).collect())
}

fn run(flavour: Flavour, timeout: Ms, steps: &[Step]) -> Result<book::Counts, Failure> {
    lives(|at| {
        let mut nodes = Nodes::new(flavour, timeout);
        for &step in steps {
            nodes.act(step).map_err(|why| format!("{why}\nin {step:?}: {:?}", nodes.book))?;
            *at += 1;
        }
        nodes.drain().map_err(|why| format!("{why} at {}: {:?}", nodes.now(), nodes.book))?;
        Ok(nodes.book.counts)
    })
}

fn tell_of(seed: u64) {
    let (flavour, timeout, steps) = history(seed);
    tell(seed, (flavour, timeout), steps, |steps| run(flavour, timeout, steps).err());
}

#[test]
fn owners_are_told_what_replicas_have_whatever_happens() {
    if let Some(seed) = from_env("LOCK_SEED") {
        return tell_of(seed);
    }
    let (first, rounds) = (first_seed(0), from_env("LOCK_ROUNDS").unwrap_or(ROUNDS));
    let mut all = book::Counts::default();
    for seed in first..first + rounds {
        let (flavour, timeout, steps) = history(seed);
        match run(flavour, timeout, &steps) {
            Ok(counts) => all += counts,
            Err(_) => return tell_of(seed),
        }
    }
    eprintln!("{rounds} histories: {all:?}");
    assert!(rounds < ROUNDS || all.rarest() * 20 >= rounds, "{all:?}");
}

/// What can be done in the small world, in which all grants wait for so many replicas.
fn small(replicas: u8) -> Vec<Step> {
    let ask = |owner, wait| {
        let (lock, both, ttl, shared) = (0, false, 4, false);
        Step::Ask { owner, lock, both, ttl, wait, replicas, shared }
    };
    let mut all = Vec::new();
    for owner in 0..2 {
        all.extend([ask(owner, Wait::Try), ask(owner, Wait::Forever)]);
        all.extend([Step::Release { owner, lock: 0 }, Step::AskOld { owner, lock: 0, replicas }]);
    }
    for replica in 0..2 {
        all.extend([Step::Hear { replica, most: 1 }, Step::Acknowledge { replica }]);
        all.push(Step::Promote { replica });
    }
    all.extend([Step::Turn, Step::Pass(1), Step::Pass(2)]);
    all
}

/// Lives through every history of so many steps. Returns how many states there are.
fn every_history(replicas: u8, depth: usize) -> usize {
    let actions = small(replicas);
    let live = |path: &[usize]| -> Verdict<Option<Nodes>> {
        let mut nodes = Nodes::new(Flavour::default(), 2);
        for &at in path {
            if !nodes.act(actions[at])? {
                return Ok(None);
            }
        }
        Ok(Some(nodes))
    };
    let mut reader = Reader::default();
    let (mut seen, mut next) = (BTreeSet::new(), VecDeque::from([Vec::new()]));
    while let Some(path) = next.pop_front() {
        for at in 0..actions.len() {
            let mut path: Vec<usize> = path.clone();
            path.push(at);
            let told = || path.iter().map(|&at| format!("  {:?}", actions[at])).collect::<Vec<_>>();
            let nodes = live(&path).unwrap_or_else(|why| panic!("{why}\n{}", told().join("\n")));
            let Some(nodes) = nodes else { continue };
            let now = nodes.now();
            if seen.insert(reader.read_as(now, 3, |to| nodes.print(to))) && path.len() < depth {
                next.push_back(path);
            }
        }
    }
    seen.len()
}

#[test]
fn no_promotion_gives_two_holders_that_were_told_after_replicas_had_acknowledged() {
    let depth = from_env("LOCK_EXPLORE_DEPTH").map_or(5, |depth| depth as usize);
    for replicas in [1, 2] {
        eprintln!("{replicas} of 2: {} states", every_history(replicas, depth));
    }
}
