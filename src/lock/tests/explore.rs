//! Every history of a small world: the core, with the little server around it, is taken through all that two
//! or three owners can do with one lock or two, in every order, the shortest histories first.
//!
//! | file | idea |
//! |---|---|
//! | `action` | what can be done |
//! | `worlds` | which of that is done in which world |
//! | `world` | a server, and the clients that do it |
//! | `book` | whether what came of it is right, by what was replied and written |
//! | `fingerprint` | which states are the same |
//! | `search` | the walk |
//! | `visit` | one thread's part of it |
//! | `memory` | how a world comes back to an earlier moment |
//!
//! `make explore` ends within `LOCK_EXPLORE_SECONDS`, 600 if nothing is said, and goes as deep as each world has
//! been judged, or to `LOCK_EXPLORE_DEPTH`; `LOCK_EXPLORE_WORLD` chooses a world by a part of its name, and `LOCK_EXPLORE_PATH` lives through one history of it again.

mod action;
mod book;
mod cut_off;
pub mod fingerprint;
mod memory;
mod search;
mod visit;
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
        let reach = Reach { depth: 3, until: None, threads: 2, compare_one_in: 16 };
        let outcome = explore(&setting, reach);
        eprintln!("{}: {} states", setting.name, outcome.states);
        if let Some(failure) = &outcome.failure {
            panic!("{}", told(&setting, failure));
        }
    }
}

/// What `make explore` does.
#[test]
#[ignore = "takes ten minutes, with optimisation"]
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
    println!(
        "{} worlds, {seconds} s for all of them (LOCK_EXPLORE_SECONDS), on {threads} cores; \
         complete: all histories of so many steps",
        worlds.len()
    );
    let (mut all, mut failures) = (Outcome::default(), 0);
    println!(
        "{:<26} {:>10} {:>12} {:>8} {:>10} {:>8} {:>5}",
        "world", "states", "transitions", "complete", "drained", "compared", "s"
    );
    for (done, setting) in worlds.iter().enumerate() {
        let left = Duration::from_secs(seconds).saturating_sub(began.elapsed());
        let began = Instant::now();
        let reach = Reach {
            depth: depth.unwrap_or(setting.judged_to),
            until: Some(began + left / (worlds.len() - done) as u32),
            threads,
            compare_one_in: 4096,
        };
        let outcome = explore(setting, reach);
        let complete = if outcome.is_all { "all".to_owned() } else { outcome.depth.to_string() };
        print(setting.name, &outcome, &complete, began.elapsed());
        all.states += outcome.states;
        all.transitions += outcome.transitions;
        all.drained += outcome.drained;
        all.compared += outcome.compared;
        if let Some(failure) = &outcome.failure {
            failures += 1;
            println!("{}", told(setting, failure));
        }
    }
    print("all", &all, "", began.elapsed());
    assert_eq!(failures, 0, "histories that must not be");
}

fn print(name: &str, outcome: &Outcome, complete: &str, took: Duration) {
    let Outcome { states, transitions, drained, compared, .. } = outcome;
    let seconds = took.as_secs();
    println!(
        "{name:<26} {states:>10} {transitions:>12} {complete:>8} {drained:>10} {compared:>8} {seconds:>5}"
    );
}

/// Says what comes of each step of one history.
fn replay(setting: &Setting, path: &str) {
    let path: Vec<usize> = path.split(',').filter_map(|step| step.parse().ok()).collect();
    println!("{}:\n{}", setting.name, in_words(setting, &path));
    for steps in 0..=path.len() {
        let mut world = match live(setting, &path[..steps]) {
            Ok(Some(world)) => world,
            Ok(None) => panic!("step {steps} can't be done"),
            Err(why) => panic!("step {steps}: {why}"),
        };
        println!("after {steps}: {:?}\n{:?}", world.server.keys.keys, world.book);
        let left = world.check().and_then(|()| world.drain());
        if let Err(why) = left {
            panic!("after step {steps}: {why}");
        }
    }
}
