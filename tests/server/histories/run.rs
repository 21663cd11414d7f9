//! One run: a server, its clients, one that watches the queues, and a bad day.

use super::checker::check;
use super::clients::{Worker, journal, locks};
use super::history::{Action, Answer, Call, Event, History, Kind, MS, Micros, Seen, Written};
use super::judge::{self, Opinion};
use super::record;
use super::way::{Reply, Way};
use crate::support::*;
use std::env;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const SHORT: Duration = Duration::from_millis(1200);
/// It decides what the clients choose; what the machine makes of it is never twice the same.
const SEED: u64 = 20_261_121;
/// So much longer goes on what has not seen enough, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where it all happens: the clock, the server of the moment, what the checker hears of.
pub struct Stage {
    began: Instant,
    lasts: Duration,
    is_over: AtomicBool,
    address: Mutex<SocketAddr>,
    events: Mutex<Vec<Event>>,
    numbers: AtomicU64,
    seen: Counts<AtomicUsize>,
    enough: Counts<usize>,
    pub hang_up_one_in: Option<u64>,
    pub ends_are_prompt: bool,
    pub queueing: u64,
    pub claim_time: Option<Micros>,
    pub is_kept_up: bool,
    pub has_operator: bool,
}

/// What shows that a run was one.
#[derive(Default)]
struct Counts<T> {
    grants: T,
    places: T,
    unknown: T,
    refused: T,
}

impl Stage {
    fn new(address: SocketAddr, plan: &Plan) -> Stage {
        Stage {
            began: Instant::now(),
            lasts: soak().unwrap_or(SHORT),
            is_over: AtomicBool::new(false),
            address: Mutex::new(address),
            events: Mutex::default(),
            numbers: AtomicU64::new(0),
            seen: Counts::default(),
            enough: Counts {
                grants: 50,
                places: plan.places,
                unknown: plan.unknown,
                refused: plan.refused,
            },
            hang_up_one_in: plan.hang_up_one_in,
            ends_are_prompt: plan.ends_are_prompt,
            queueing: plan.queueing,
            claim_time: plan.claim_time,
            is_kept_up: plan.is_kept_up,
            has_operator: plan.has_operator,
        }
    }

    pub fn now(&self) -> Micros {
        self.began.elapsed().as_micros().try_into().unwrap()
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether there is time for one more bad moment.
    pub fn goes_on(&self) -> bool {
        self.goes_on_until(true)
    }

    /// The same, and as long as the bad day itself has not had enough.
    pub fn goes_on_until(&self, enough: bool) -> bool {
        let lasted = self.began.elapsed();
        lasted < self.lasts
            || (!(enough && self.missing().is_none()) && lasted < self.lasts + PATIENCE)
    }

    /// What the work takes that is done between two bad moments.
    pub fn let_work(&self, ms: u64) {
        thread::sleep(Duration::from_millis(ms));
    }

    pub fn address(&self) -> SocketAddr {
        *self.address.lock().unwrap()
    }

    /// From now on all connect to this one.
    pub fn move_to(&self, address: SocketAddr) {
        *self.address.lock().unwrap() = address;
    }

    /// Never the same.
    pub fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Does it, and tells the checker when.
    pub fn tell<T>(&self, kind: Kind, act: impl FnOnce() -> T) -> T {
        let from = self.now();
        let done = act();
        self.tell_since(kind, from);
        done
    }

    /// Tells the checker what has happened since then.
    pub fn tell_since(&self, kind: Kind, from: Micros) {
        self.note(kind, from, self.now());
    }

    pub fn note(&self, kind: Kind, from: Micros, to: Micros) {
        self.events.lock().unwrap().push(Event { kind, from, to });
    }

    pub fn count(&self, action: &Action, answer: Answer) {
        let counter = match (action, answer) {
            (Action::Acquire { .. }, Answer::Int(_)) => &self.seen.grants,
            (_, Answer::Place(_)) => &self.seen.places,
            (_, Answer::Unknown) => &self.seen.unknown,
            (_, Answer::Refused) => &self.seen.refused,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What a run like this should have seen, and has not yet.
    fn missing(&self) -> Option<String> {
        let Counts { grants, places, unknown, refused } = &self.enough;
        let all = [
            ("grants", &self.seen.grants, grants),
            ("places", &self.seen.places, places),
            ("unknown", &self.seen.unknown, unknown),
            ("refused", &self.seen.refused, refused),
        ];
        let counts = all.map(|(name, seen, least)| (name, seen.load(Ordering::Relaxed), *least));
        let mut missing = counts.iter().filter(|(_, seen, least)| seen < least);
        missing.next().map(|(name, seen, least)| format!("{name}: {seen} of {least}"))
    }

    /// The clients' time is up, also when the bad day ended in a panic.
    fn finish(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// How the clients of a run behave.
pub struct Plan {
    pub clients: u64,
    pub hang_up_one_in: Option<u64>,
    /// Every owner works on two connections at once.
    pub in_pairs: bool,
    /// Whether the server sees at once that a connection was closed, and may write then.
    pub ends_are_prompt: bool,
    /// Of a hundred waits so many are for a place.
    pub queueing: u64,
    /// What the server gives a client to claim its grant after a message, if messages can be trusted:
    /// no fault touches the connections on which they are heard.
    pub claim_time: Option<Micros>,
    /// No client dies while it has a place, or gives one up without a word: where the server now and then
    /// keeps those back who would ask, all places outlive that, and one that has left has its turn again
    /// and again.
    pub is_kept_up: bool,
    /// Locks are broken now and then.
    pub has_operator: bool,
    /// So many times at least a client gets its place, or the run was none.
    pub places: usize,
    /// So many calls at least have no answer.
    pub unknown: usize,
    /// So many at least are refused.
    pub refused: usize,
}

impl Default for Plan {
    /// So many clients that one always waits.
    fn default() -> Plan {
        Plan {
            clients: 8,
            hang_up_one_in: None,
            in_pairs: false,
            ends_are_prompt: true,
            queueing: 30,
            claim_time: None,
            is_kept_up: false,
            has_operator: true,
            places: 10,
            unknown: 0,
            refused: 0,
        }
    }
}

/// Lets the clients work while `bad_day` goes on, and fails when their history is not a lock's.
#[track_caller]
pub fn run(address: SocketAddr, plan: Plan, bad_day: impl FnOnce(&Stage, &mut Chance)) -> History {
    let seed = seed();
    let stage = Stage::new(address, &plan);
    // What others read is as short as it may be.
    let clients = plan.clients / if record::folder().is_some() { 2 } else { 1 };
    let (calls, seen) = thread::scope(|scope| {
        let workers: Vec<_> = (0..clients)
            .map(|number| {
                let worker = Worker::new(&stage, Chance::new(seed.wrapping_add(number)));
                let name = if plan.in_pairs { number / 2 } else { number };
                let name = format!("w{name}");
                // Pairs do not go in step: the round is what the clock says.
                scope.spawn(|| worker.work_until_the_end(&{ name }, rounds(&stage, plan.in_pairs)))
            })
            .collect();
        let watcher = scope.spawn(|| watch(&stage));
        let end = End(&stage);
        bad_day(&stage, &mut Chance::new(seed.wrapping_add(plan.clients)));
        drop(end);
        let calls: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        (calls, watcher.join().unwrap())
    });
    let written = written(&stage);
    let missing = stage.missing();
    let mut history = History { calls, events: stage.events.into_inner().unwrap(), seen, written };
    history.calls.sort_by_key(|call| call.start);
    record::publish(&history);
    judge(&history, seed);
    if let Some(missing) = missing {
        panic!("hardly a run: {missing}");
    }
    history
}

#[track_caller]
fn judge(history: &History, seed: u64) {
    let faults = check(history);
    if let Some(fault) = faults.first() {
        panic!(
            "LOCK_SEED={seed}: {} faults, the first is {:?}: {}\n{}while {:?}\n\
             the whole history, to be judged again: LOCK_HISTORY={}",
            faults.len(),
            fault.rule,
            fault.words,
            around(history, &fault.words),
            history.events,
            record::keep(history, seed).display(),
        );
    }
    let opinion = other_opinion(history);
    assert!(
        opinion.refused.is_empty(),
        "LOCK_SEED={seed}: no lock gives {:?}, while {:?}\n\
         the whole history, to be judged again: LOCK_HISTORY={}",
        opinion.refused,
        history.events,
        record::keep(history, seed).display(),
    );
    say_what_was_judged(history, &opinion);
    assert!(
        opinion.undecided.is_empty() || soak().is_some(),
        "LOCK_SEED={seed}: the other judge says nothing of {:?}: LOCK_HISTORY={}",
        opinion.undecided,
        record::keep(history, seed).display(),
    );
}

/// What takes longer than a short run takes the other judge much longer; and of what two servers remember of a lock
/// that goes back and forth between them it knows too little. The order of the queues it judges always.
fn other_opinion(history: &History) -> Opinion {
    let is_moved = history.events.iter().any(|event| event.kind == Kind::Moved);
    if soak().is_some() || is_moved {
        judge::opinion_of_order(history)
    } else {
        judge::opinion(history)
    }
}

/// tests/groups adds these up.
fn say_what_was_judged(history: &History, opinion: &Opinion) {
    let grants = history.calls.iter().filter(|call| call.fence().is_some());
    let current = thread::current();
    let _ = writeln!(
        io::stderr(),
        "HISTORY calls={} grants={} undecided={} {}",
        history.calls.len(),
        grants.count(),
        opinion.undecided.len(),
        current.name().unwrap_or("a run"),
    );
}

/// How long a run shall be, if more than the short one is wanted.
pub fn soak() -> Option<Duration> {
    number("LOCK_SOAK_SECONDS").map(Duration::from_secs)
}

/// A long run has a new seed each time, and says which: past cargo's capture of the output.
fn seed() -> u64 {
    let clock = || {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        u64::try_from(now.unwrap().as_micros()).unwrap()
    };
    let given = number("LOCK_SEED");
    let seed = given.unwrap_or_else(|| soak().map_or(SEED, |_| clock()));
    if soak().is_some() {
        let current = thread::current();
        let name = current.name().unwrap_or("a run");
        let _ = writeln!(io::stderr(), "LOCK_SEED={seed} {name}");
    }
    seed
}

/// What the guarded writes have left, in their order.
fn written(stage: &Stage) -> Vec<Written> {
    let mut way = Way::to(stage);
    let mut read = |key: &'static str| {
        let words = args!["LRANGE", journal(key), 0, -1];
        let told = way.run(&words, PATIENCE).and_then(|told| told.answer);
        let all = told.expect("the server is there at the end");
        let lines = all.items().iter().map(|line| written_line(key, &line.text()));
        lines.collect::<Vec<_>>()
    };
    locks().flat_map(&mut read).collect()
}

fn written_line(key: &'static str, line: &str) -> Written {
    let words: Vec<_> = line.split(' ').collect();
    let [owner, fence, mark] = words.as_slice() else {
        panic!("no line of ours: {line}");
    };
    Written {
        key,
        owner: (*owner).to_owned(),
        fence: fence.parse().unwrap(),
        mark: mark.parse().unwrap(),
    }
}

/// Ends the run also when the bad day panics, or the scope would never end.
struct End<'a>(&'a Stage);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

/// All calls of the owners that are named, each on a line.
fn around(history: &History, words: &str) -> String {
    let is_named = |call: &&Call| words.contains(&format!("{:?}", call.owner));
    let calls = history.calls.iter().filter(is_named);
    calls.map(|call| format!("{call:?}\n")).collect()
}

fn rounds(stage: &Stage, by_the_clock: bool) -> impl Iterator<Item = u64> {
    (0..).map(move |round| if by_the_clock { stage.now() / (40 * MS) } else { round })
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().expect(name))
}

/// Asks who waits, over and over.
fn watch(stage: &Stage) -> Vec<Seen> {
    let mut all = Vec::new();
    let mut way = Way::to(stage);
    while !stage.is_over() {
        thread::sleep(Duration::from_millis(2));
        for key in locks() {
            let told = way.run(&args!["LOCK.INFO", key], Duration::from_millis(300));
            let Some(Reply { start, answer: Some(info), .. }) = told else {
                break;
            };
            all.extend(seen(key, &info, (start, stage.now())));
        }
    }
    all
}

fn seen(key: &'static str, info: &Value, (start, end): (Micros, Micros)) -> Option<Seen> {
    // After a step of the clock a holder may be known by its number alone.
    let owners = |all: Vec<&Value>| {
        let named = all.iter().filter(|one| !one["owner"].is_nil());
        named.map(|one| one["owner"].text()).collect()
    };
    let holders = info.field("holders")?.items().iter();
    let is_awake = |waiter: &&Value| waiter.field("asleep").is_none_or(|asleep| *asleep == 0);
    let waiters = info.field("waiters")?.items().iter();
    let (waiting, asleep): (Vec<_>, Vec<_>) = waiters.partition(is_awake);
    Some(Seen {
        key,
        waiting: owners(waiting),
        others: owners(holders.chain(asleep).collect()),
        start,
        end,
    })
}
