//! The walk through all histories of a world, the shortest first.
//!
//! A state is not kept but lived through anew, from the first step on, so it costs eight bytes and its
//! fingerprint. Those that are visited one after the other have most of their history in common: each thread
//! keeps the moments of its last one (`memory`), and goes back to where the next one parts from it.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::lock::tests::model::Verdict;

use super::action::Action;
use super::fingerprint::{Fingerprint, Reader};
use super::memory;
use super::visit::Visitor;
use super::world::World;
use super::worlds::Setting;

/// So many states are visited by one thread before it asks for more.
const HELPING: usize = 32;

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Reach {
    pub depth: usize,
    pub until: Option<Instant>,
    pub threads: usize,
    /// Of so many fingerprints one is watched: are states alike that have it?
    pub compare_one_in: u64,
}

/// A history that must not be.
#[derive(Clone, Debug)]
pub struct Failure {
    /// By their places in the world's list.
    pub path: Vec<usize>,
    pub why: String,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub states: usize,
    pub transitions: usize,
    /// All histories of so many steps have been lived through.
    pub depth: usize,
    /// There are no others, however long.
    pub is_all: bool,
    pub drained: usize,
    pub compared: usize,
    pub failure: Option<Failure>,
}

/// How a state was come by first.
#[derive(Clone, Copy)]
pub struct Link {
    pub parent: u32,
    pub action: u8,
}

#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

type Seen = HashSet<Fingerprint, BuildHasherDefault<AsItIs>>;

/// Sets of states that all threads look into.
pub struct Shards(Vec<Mutex<Seen>>);

const SHARDS: usize = 64;

impl Shards {
    fn new() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    pub fn contains(&self, state: Fingerprint) -> bool {
        lock(&self.0[state as usize % SHARDS]).contains(&state)
    }

    pub fn insert(&self, state: Fingerprint) -> bool {
        lock(&self.0[state as usize % SHARDS]).insert(state)
    }
}

pub struct Walk<'s> {
    pub setting: &'s Setting,
    pub reach: Reach,
    pub seen: Shards,
    /// Whence everybody has let go, and all were served.
    pub drained: Shards,
    /// Some states, and how each was come by.
    watched: Mutex<HashMap<Fingerprint, Vec<usize>>>,
    /// The links of all states up to the level that is visited now.
    links: Vec<Link>,
    next: AtomicUsize,
    stops: AtomicBool,
    failure: Mutex<Option<Failure>>,
}

/// What one thread has found in a level.
#[derive(Default)]
pub struct Found {
    pub links: Vec<Link>,
    pub transitions: usize,
    pub drained: usize,
    pub compared: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lives through a history. Is each of its steps possible?
pub fn live(setting: &Setting, path: &[usize]) -> Verdict<Option<World>> {
    let mut world = World::new(setting);
    for &action in path {
        if !world.act(setting.actions[action])? {
            return Ok(None);
        }
    }
    Ok(Some(world))
}

/// Walks through this world.
pub fn explore(setting: &Setting, reach: Reach) -> Outcome {
    let first = World::new(setting);
    let mut walk = Walk {
        setting,
        reach,
        seen: Shards::new(),
        drained: Shards::new(),
        watched: Mutex::default(),
        links: vec![Link { parent: 0, action: 0 }],
        next: AtomicUsize::new(0),
        stops: AtomicBool::new(false),
        failure: Mutex::default(),
    };
    walk.seen.insert(Reader::default().read(&first));
    let mut outcome = Outcome::default();
    let mut level = 0..1;
    while outcome.depth < reach.depth {
        walk.next.store(level.start, Ordering::Relaxed);
        let end = level.end;
        let found: Vec<Found> = thread::scope(|scope| {
            let visits: Vec<_> = (0..reach.threads.min(memory::MOST / 4))
                .map(|_| scope.spawn(|| walk.visit(end)))
                .collect();
            visits.into_iter().filter_map(|visit| visit.join().ok()).collect()
        });
        for found in found {
            walk.links.extend(found.links);
            outcome.transitions += found.transitions;
            outcome.drained += found.drained;
            outcome.compared += found.compared;
        }
        if walk.stops.load(Ordering::Relaxed) {
            break;
        }
        outcome.depth += 1;
        level = end..walk.links.len();
        if level.is_empty() {
            outcome.is_all = true;
            break;
        }
    }
    outcome.states = walk.links.len();
    outcome.failure = lock(&walk.failure).take();
    outcome
}

impl Walk<'_> {
    pub fn path(&self, mut at: usize) -> Vec<usize> {
        let mut path = Vec::new();
        while at > 0 {
            let link = self.links[at];
            path.push(usize::from(link.action));
            at = link.parent as usize;
        }
        path.reverse();
        path
    }

    /// Visits the states of this level, with other threads.
    fn visit(&self, end: usize) -> Found {
        let mut visitor = Visitor::new(self);
        loop {
            let from = self.next.fetch_add(HELPING, Ordering::Relaxed);
            if from >= end {
                return visitor.found;
            }
            for at in from..end.min(from + HELPING) {
                let is_time_up = self.reach.until.is_some_and(|until| Instant::now() >= until);
                if is_time_up {
                    self.stops.store(true, Ordering::Relaxed);
                }
                if self.stops.load(Ordering::Relaxed) {
                    return visitor.found;
                }
                let go_on = AssertUnwindSafe(|| visitor.go_on_from(at));
                let why = match catch_unwind(go_on) {
                    Ok(Ok(())) => continue,
                    Ok(Err(why)) => why,
                    Err(_) => "a panic".to_owned(),
                };
                self.fail(visitor.history(), why);
                return visitor.found;
            }
        }
    }

    /// Are two states alike that have the same fingerprint? Whatever is done next, the same must be
    /// replied, and lead to the same.
    pub fn compare(&self, state: Fingerprint, path: &[usize], found: &mut Found) -> Verdict {
        let known = lock(&self.watched).entry(state).or_insert_with(|| path.to_vec()).clone();
        if known == path {
            return Ok(());
        }
        found.compared += 1;
        for action in 0..self.setting.actions.len() {
            let [one, other] =
                [&known[..], path].map(|path| what_comes(self.setting, path, action));
            if one != other {
                return Err(format!(
                    "this state was taken for that of another history, and then {}:\n{}{}",
                    self.setting.actions[action],
                    in_words(self.setting, &known),
                    self.difference(&known, path, action),
                ));
            }
        }
        Ok(())
    }

    /// Where what these two print of themselves after this begins to differ.
    fn difference(&self, one: &[usize], other: &[usize], action: usize) -> String {
        let [one, other] = [one, other].map(|path| {
            let mut world = live(self.setting, path).ok().flatten()?;
            world.listens = true;
            let outcome = world.act(self.setting.actions[action]);
            let mut words = format!("{outcome:?} ");
            world.print(&mut words).ok()?;
            Some(words.replace(|letter: char| letter.is_ascii_digit(), ""))
        });
        let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
        let same = (one.bytes().zip(other.bytes())).take_while(|(one, other)| one == other);
        let from = same.count().saturating_sub(200);
        let part = |words: &str| words.chars().skip(from).take(400).collect::<String>();
        format!("{}\n{}", part(&one), part(&other))
    }

    fn fail(&self, path: Vec<usize>, why: String) {
        let failure = &mut *lock(&self.failure);
        // The shortest of those that were found at once, and the first of these.
        let is_better = |old: &Failure| (path.len(), &path) < (old.path.len(), &old.path);
        if failure.as_ref().is_none_or(is_better) {
            *failure = Some(Failure { path, why });
        }
        self.stops.store(true, Ordering::Relaxed);
    }
}

/// What is said when this is done after that history, and to what it leads.
fn what_comes(setting: &Setting, path: &[usize], action: usize) -> Verdict<Option<Fingerprint>> {
    let Some(mut world) = live(setting, path)? else {
        return Ok(None);
    };
    world.listens = true;
    // What is wrong with it is found elsewhere.
    match world.act(setting.actions[action]) {
        Ok(true) => Ok(Some(Reader::default().read(&world))),
        Ok(false) | Err(_) => Ok(None),
    }
}

/// A history, one step to a line.
pub fn in_words(setting: &Setting, path: &[usize]) -> String {
    let steps: Vec<Action> = path.iter().map(|&action| setting.actions[action]).collect();
    let lines = steps.iter().zip(1..).map(|(step, number)| format!("  {number}. {step}\n"));
    lines.collect()
}
