//! Every history of a small world: the core, with the little server around it, is taken through all that two
//! or three owners can do with one lock or two, in every order, the shortest histories first.
//!
//! | file | idea |
//! |---|---|
//! | `action` | what can be done |
//! | `worlds` | which of that is done in which world |
//! | `world` | a server, and whoever does it |
//! | `book` | whether what came of it is right, by what was replied and written |
//! | `fingerprint` | which states are the same |
//! | `search` | the walk |
//!
//! `make explore` ends within `LOCK_EXPLORE_SECONDS`, 600 if nothing is said; `LOCK_EXPLORE_WORLD` chooses a
//! world by a part of its name, and `LOCK_EXPLORE_PATH` lives through one history of it again.

mod action;
mod book;
mod fingerprint;
mod search;
mod world;
mod worlds;

use std::env;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use search::{Failure, Outcome, Reach, explore, in_words, live};
use worlds::{Setting, worlds};

fn told(setting: &Setting, failure: &Failure) -> String {
    let path: Vec<String> = failure.path.iter().map(ToString::to_string).collect();
    format!(
        "{}: {}\n{}replay with LOCK_EXPLORE_WORLD='{}' LOCK_EXPLORE_PATH={}",
        setting.name,
        failure.why,
        in_words(setting, &failure.path),
        setting.name,
        path.join(",")
    )
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

#[test]
fn every_short_history_of_each_small_world_is_right() {
    for setting in worlds() {
        let reach = Reach {
            depth: 3,
            until: None,
            threads: 2,
            drain_one_in: 1,
            compare_one_in: 16,
        };
        let outcome = explore(&setting, reach);
        eprintln!("{}: {} states", setting.name, outcome.states);
        if let Some(failure) = &outcome.failure {
            panic!("{}", told(&setting, failure));
        }
    }
}

/// What `make explore` does.
#[test]
#[ignore = "takes a minute, with optimisation"]
fn every_history_of_each_small_world_is_right() {
    let chosen = env::var("LOCK_EXPLORE_WORLD").unwrap_or_default();
    let mut worlds = worlds();
    worlds.retain(|setting| setting.name.contains(&chosen));
    if let Ok(path) = env::var("LOCK_EXPLORE_PATH") {
        return worlds.iter().for_each(|setting| replay(setting, &path));
    }
    let began = Instant::now();
    let seconds = number("LOCK_EXPLORE_SECONDS").unwrap_or(600);
    let depth = number("LOCK_EXPLORE_DEPTH").map(|depth| depth as usize);
    let threads = available_parallelism().map_or(2, usize::from);
    let (mut all, mut failures) = (Outcome::default(), Vec::new());
    println!(
        "{:<26} {:>10} {:>12} {:>6} {:>10} {:>8} {:>5}",
        "world", "states", "transitions", "depth", "drained", "compared", "s"
    );
    for (done, setting) in worlds.iter().enumerate() {
        let left = Duration::from_secs(seconds).saturating_sub(began.elapsed());
        let began = Instant::now();
        let until = Some(began + left / (worlds.len() - done) as u32);
        let reach = Reach {
            depth: depth.unwrap_or(setting.judged_to),
            until,
            threads,
            drain_one_in: 8,
            compare_one_in: 4096,
        };
        let outcome = explore(setting, reach);
        print(setting.name, &outcome, began.elapsed());
        all.states += outcome.states;
        all.transitions += outcome.transitions;
        all.drained += outcome.drained;
        all.compared += outcome.compared;
        failures.extend(outcome.failure.map(|failure| told(setting, &failure)));
    }
    print("all", &all, began.elapsed());
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
}

fn print(name: &str, outcome: &Outcome, took: Duration) {
    let Outcome {
        states,
        transitions,
        depth,
        drained,
        compared,
        ..
    } = outcome;
    let depth = if outcome.is_all {
        "all".to_owned()
    } else {
        depth.to_string()
    };
    let seconds = took.as_secs();
    println!(
        "{name:<26} {states:>10} {transitions:>12} {depth:>6} {drained:>10} {compared:>8} {seconds:>5}"
    );
}

/// Says what comes of each step of one history.
fn replay(setting: &Setting, path: &str) {
    let path: Vec<usize> = path
        .split(',')
        .filter_map(|step| step.parse().ok())
        .collect();
    println!("{}:\n{}", setting.name, in_words(setting, &path));
    for steps in 0..=path.len() {
        let mut world = match live(setting, &path[..steps]) {
            Ok(Some(world)) => world,
            Ok(None) => panic!("step {steps} can't be done"),
            Err(why) => panic!("step {steps}: {why}"),
        };
        println!(
            "after {steps}: {:?}\n{:?}",
            world.server.keys.keys, world.book
        );
        let left = world.check().and_then(|()| world.drain());
        if let Err(why) = left {
            panic!("after step {steps}: {why}");
        }
    }
}
