//! One run: a server, its clients, somebody who watches the lines, and a bad day.

use super::checker::check;
use super::clients::{Chance, Worker, locks};
use super::history::{Answer, Call, Event, History, Kind, MS, Micros, Seen};
use crate::support::*;
use std::env;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SECONDS: u64 = 2;
/// It decides what the clients choose; what the machine makes of it is never twice the same.
const SEED: u64 = 20_261_121;

/// Where it all happens: the clock, the server of the moment, what the checker is told of.
pub struct Stage {
    began: Instant,
    lasts: Duration,
    is_over: AtomicBool,
    address: Mutex<SocketAddr>,
    events: Mutex<Vec<Event>>,
    pub hang_up_one_in: Option<u64>,
}

impl Stage {
    fn new(address: SocketAddr, plan: &Plan) -> Stage {
        Stage {
            began: Instant::now(),
            lasts: Duration::from_secs(number("LOCK_SOAK_SECONDS").unwrap_or(SECONDS)),
            is_over: AtomicBool::new(false),
            address: Mutex::new(address),
            events: Mutex::default(),
            hang_up_one_in: plan.hang_up_one_in,
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
        self.began.elapsed() < self.lasts
    }

    /// What the work takes that is done between two bad moments.
    pub fn let_work(&self, ms: u64) {
        thread::sleep(Duration::from_millis(ms));
    }

    pub fn address(&self) -> SocketAddr {
        *self.address.lock().unwrap()
    }

    /// From now on everybody connects to this one.
    pub fn move_to(&self, address: SocketAddr) {
        *self.address.lock().unwrap() = address;
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
        let to = self.now();
        self.events.lock().unwrap().push(Event { kind, from, to });
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
}

impl Default for Plan {
    /// So many clients that somebody always waits.
    fn default() -> Plan {
        Plan {
            clients: 8,
            hang_up_one_in: None,
            in_pairs: false,
        }
    }
}

/// What a run was, for those who ask whether it was any.
pub struct Outcome {
    pub history: History,
}

impl Outcome {
    pub fn count(&self, is_such: impl Fn(&Call) -> bool) -> usize {
        self.history
            .calls
            .iter()
            .filter(|call| is_such(call))
            .count()
    }

    pub fn unknown(&self) -> usize {
        self.count(|call| call.answer == Answer::Unknown)
    }

    pub fn refused(&self) -> usize {
        self.count(|call| call.answer == Answer::Refused)
    }
}

/// Lets the clients work while `bad_day` goes on, and fails when their history is not a lock's.
#[track_caller]
pub fn run(address: SocketAddr, plan: Plan, bad_day: impl FnOnce(&Stage, &mut Chance)) -> Outcome {
    let seed = number("LOCK_SEED").unwrap_or(SEED);
    let stage = Stage::new(address, &plan);
    let (calls, seen) = thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.clients)
            .map(|number| {
                let worker = Worker::new(&stage, Chance::new(seed + number));
                let name = if plan.in_pairs { number / 2 } else { number };
                let name = format!("w{name}");
                // Pairs do not go in step: the round is what the clock says.
                scope.spawn(|| worker.work_until_the_end(&{ name }, rounds(&stage, plan.in_pairs)))
            })
            .collect();
        let watcher = scope.spawn(|| watch(&stage));
        let end = End(&stage);
        bad_day(&stage, &mut Chance::new(seed + plan.clients));
        drop(end);
        let calls: Vec<_> = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect();
        (calls, watcher.join().unwrap())
    });
    let mut history = History {
        calls,
        events: stage.events.into_inner().unwrap(),
        seen,
    };
    history.calls.sort_by_key(|call| call.start);
    let faults = check(&history);
    if let Some(fault) = faults.first() {
        panic!(
            "LOCK_SEED={seed}: {} faults, the first is {:?}: {}\n{}while {:?}",
            faults.len(),
            fault.rule,
            fault.words,
            around(&history, &fault.words),
            history.events
        );
    }
    let outcome = Outcome { history };
    let grants = outcome.count(|call| call.fence().is_some());
    assert!(grants > 50, "hardly a run: {grants} grants");
    outcome
}

/// Ends the run also when the bad day panics, or nobody would ever come to the end of the scope.
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
    (0..).map(move |round| {
        if by_the_clock {
            stage.now() / (40 * MS)
        } else {
            round
        }
    })
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().expect(name))
}

/// Asks who waits, over and over.
fn watch(stage: &Stage) -> Vec<Seen> {
    let mut all = Vec::new();
    let mut connection = None;
    while !stage.is_over() {
        thread::sleep(Duration::from_millis(2));
        let open = || Client::try_connect(stage.address()).ok();
        let Some(mut client): Option<Client> = connection.take().or_else(open) else {
            continue;
        };
        client.give_up_after(Duration::from_millis(300));
        let answers: Vec<_> = locks()
            .map_while(|key| Some((key, client.try_run(&["LOCK.INFO", key]).ok()?)))
            .collect();
        let is_whole = answers.len() == locks().count();
        all.extend(
            answers
                .iter()
                .filter_map(|(key, info)| seen(key, info, stage.now())),
        );
        connection = is_whole.then_some(client);
    }
    all
}

fn seen(key: &'static str, info: &Value, end: Micros) -> Option<Seen> {
    let waiters = info.field("waiters")?.items();
    Some(Seen {
        key,
        waiting: waiters
            .iter()
            .map(|waiter| waiter["owner"].text())
            .collect(),
        end,
    })
}
