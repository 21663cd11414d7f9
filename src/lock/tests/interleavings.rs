//! Random histories. Whatever a seed brings about, server and model must agree after every step, and
//! everything must drain once the faults stop.
//!
//! `LOCK_ROUNDS` says how many histories are tried (500), `LOCK_SEED` replays a single one.

mod counts;
mod inside;
mod random;
mod shrink;
mod steps;
mod world;

use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};

use counts::Counts;
use random::Random;
use steps::{Kind, Step};
use world::World;

use super::simulated::{Answers, Flavour};

/// How many steps a history has.
const STEPS: usize = 400;

/// Where a history went wrong, and how.
struct Failure {
    step: usize,
    why: String,
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
        in_cluster: random.one_in(4),
    };
    // Rare things are left out of half of the histories, so that long waits and long lines come about.
    let kind = Kind::any(&mut random);
    let steps = (0..STEPS).map(|_| steps::any(&mut random, kind)).collect();
    History { flavour, steps }
}

/// Lives through a history and the peace after it. A panic of the core is a failure like any other.
fn run(flavour: Flavour, steps: &[Step]) -> Result<Counts, Failure> {
    let mut at = 0;
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(flavour);
        for &step in steps {
            world.apply(step)?;
            at += 1;
        }
        world.drain()?;
        Ok(world.counts)
    }));
    match lived {
        Ok(Ok(counts)) => Ok(counts),
        Ok(Err(why)) => Err(Failure { step: at, why }),
        Err(panic) => Err(Failure {
            step: at,
            why: in_words(&*panic),
        }),
    }
}

fn in_words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("of unknown kind"))
}

/// Tries one history. If it fails, says how, and by as few steps as can be found.
fn try_history(seed: u64) -> Counts {
    let History { flavour, steps } = history(seed);
    let failure = match run(flavour, &steps) {
        Ok(counts) => return counts,
        Err(failure) => failure,
    };
    let (steps, failure) = shrink::shrink(steps, failure, |steps| run(flavour, steps).err());
    let listed: Vec<String> = steps.iter().map(|step| format!("  {step:?}")).collect();
    panic!(
        "{}\nafter step {} of these, on {flavour:?}:\n{}\nreplay with LOCK_SEED={seed}",
        failure.why,
        failure.step,
        listed.join("\n")
    );
}

fn from_env(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    Some(value.parse().expect("a number"))
}

#[test]
fn whatever_happens_the_rules_hold_and_everything_drains() {
    if let Some(seed) = from_env("LOCK_SEED") {
        try_history(seed);
        return;
    }
    let rounds = from_env("LOCK_ROUNDS").unwrap_or(500);
    let mut counts = Counts::default();
    for seed in 0..rounds {
        counts += try_history(seed);
    }
    eprintln!("{counts:?}");
    // A test that never gets into trouble proves nothing.
    if rounds >= 100 {
        assert_eq!(counts.rarest(rounds), None, "{counts:?}");
    }
}
