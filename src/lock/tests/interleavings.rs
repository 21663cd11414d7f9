//! Random histories. Whatever a seed brings about, a lock must have been allowed to do it, after every
//! step, and everything must drain once the faults stop.
//!
//! `LOCK_SEED` replays a single history. `LOCK_ROUNDS` says how many are tried, `LOCK_FROM` from which
//! seed on. `LOCK_SOAK_SECONDS` has them tried for so long, by seeds that were not tried before.

mod counts;
mod crowd;
pub mod orders;
mod places;
pub mod random;
pub mod shrink;
mod soak;
pub mod steps;
mod world;

use std::env;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use counts::Counts;
use random::Random;
use soak::Plan;
use steps::{Kind, Step};
use world::World;

use super::model::{Verdict, ensure};
use super::simulated::{Answers, Flavour, Server};
use crate::lock::stats::Remembered;

/// How many steps a history has.
const STEPS: usize = 400;

/// Where a history went wrong, and how.
pub struct Failure {
    pub step: usize,
    pub why: String,
}

/// A whole history: on what kind of server, and what is done.
struct History {
    flavour: Flavour,
    steps: Vec<Step>,
}

fn history(seed: u64) -> History {
    let mut random = Random::new(seed);
    let flavour = Flavour {
        answers: random.pick(&[Answers::Straight, Answers::Kept, Answers::Late]),
        notes_late: random.one_in(2),
        keeps_expired: random.one_in(2),
        says_how: random.one_in(2),
        in_cluster: random.one_in(4),
        // In every other one no more than a few may share a lock.
        max_sharers: (seed % 2 == 1).then(|| seed / 2 % 3 + 1),
    };
    // Rare things are left out of half of the histories, so that long waits and long queues come about.
    let kind = Kind::any(&mut random);
    let steps = (0..STEPS).map(|_| steps::any(&mut random, kind)).collect();
    History { flavour, steps }
}

/// Lives through a history and the peace after it.
fn run(flavour: Flavour, steps: &[Step]) -> Result<Counts, Failure> {
    lives(|at| {
        let mut world = World::new(flavour);
        for &step in steps {
            world.apply(step)?;
            *at += 1;
        }
        world.drain()?;
        Ok(world.counts)
    })
}

/// A panic of the core is a failure like any other.
pub fn lives<Counts>(live: impl FnOnce(&mut usize) -> Verdict<Counts>) -> Result<Counts, Failure> {
    let mut step = 0;
    let lived = catch_unwind(AssertUnwindSafe(|| live(&mut step)));
    let lived = lived.unwrap_or_else(|panic| Err(in_words(&*panic)));
    lived.map_err(|why| Failure { step, why })
}

fn in_words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("of unknown kind"))
}

/// No client holds anything or waits for anything: `INFO lock_memory` says so, and no timer goes on.
pub fn nothing_is_left(server: &Server) -> Verdict {
    let (left, due) = (server.locks.remembered(), server.due());
    let asleep = server.locks.waiting.waits.lists().entries_asleep;
    ensure(left == Remembered::default() && due.is_none() && asleep == 0, || {
        format!("left behind: {left:?}, {asleep} asleep, and due at {due:?}")
    })
}

fn tell_of(seed: u64) {
    let History { flavour, steps } = history(seed);
    tell(seed, flavour, steps, |steps| run(flavour, steps).err());
}

/// Tells of a history that fails: how it does so, and by as few steps as can be found.
pub fn tell<Step: Clone + Debug>(
    seed: u64,
    flavour: impl Debug,
    steps: Vec<Step>,
    run: impl Fn(&[Step]) -> Option<Failure>,
) {
    let Some(failure) = run(&steps) else {
        return;
    };
    let (steps, failure) = shrink::shrink(steps, failure, run);
    let listed: Vec<String> = steps.iter().map(|step| format!("  {step:?}")).collect();
    panic!(
        "{}\nafter step {} of these, on {flavour:?}:\n{}\nreplay with LOCK_SEED={seed}",
        failure.why,
        failure.step,
        listed.join("\n")
    );
}

pub fn from_env(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

/// From which seed on to begin: from this one, unless another is named, or new ones are wanted.
pub fn first_seed(usual: u64) -> u64 {
    let soaks = env::var_os("LOCK_SOAK_SECONDS").is_some();
    let usual = || if soaks { soak::seed_of_now() } else { usual };
    from_env("LOCK_FROM").unwrap_or_else(usual)
}

/// How many histories it takes for a million steps, and some.
const ROUNDS: u64 = 2500;

#[test]
fn whatever_happens_the_rules_hold_and_everything_drains() {
    if let Some(seed) = from_env("LOCK_SEED") {
        return tell_of(seed);
    }
    let length = from_env("LOCK_SOAK_SECONDS").map(Duration::from_secs);
    let plan = Plan {
        first: first_seed(0),
        rounds: from_env("LOCK_ROUNDS").unwrap_or(length.map_or(ROUNDS, |_| u64::MAX)),
        length,
    };
    let (rounds, counts) = match soak::try_all(plan, |seed| {
        let History { flavour, steps } = history(seed);
        run(flavour, &steps).ok()
    }) {
        Ok(tried) => tried,
        Err(seed) => return tell_of(seed),
    };
    eprintln!("{rounds} histories from {} on: {counts:?}", plan.first);
    // A test that never gets into trouble proves nothing.
    if rounds >= ROUNDS {
        assert_eq!(counts.rarest(rounds), None, "{counts:?}");
        assert!(counts.steps >= 400 * rounds, "{counts:?}");
    }
}
