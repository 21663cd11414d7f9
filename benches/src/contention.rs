//! Many clients on one lock: how soon each gets it, how fairly, and what that costs the server.

use crate::bench::{Bench, Goal};
use crate::limits;
use crate::process::Process;
use crate::runtime::{Turnstile, sleep, spawn};
use crate::server::Server;
use crate::stats::{Spread, fairness, jain};
use crate::ways::module::Module;
use crate::ways::polling::Polling;
use crate::ways::signals::{Blpop, PubSub};
use crate::ways::{Venue, Way};
use crate::words::{Table, count, ms, some, time, times};
use anyhow::{Result, bail};
use serde_json::json;
use std::cell::RefCell;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

const PART: &str = "contention";
const CLIENTS: [usize; 5] = [2, 8, 64, 512, 4096];
const HOLDS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(10)];
/// That of the picture and the table in the pages.
const DRAWN: Duration = Duration::from_millis(1);
const FIRST_RUSH: Duration = Duration::from_millis(100);
const KEY: &str = "lock:market";
/// A rival that is fair is one to be faster than.
const FAIR: f64 = 0.95;

#[derive(Debug, Clone, Default)]
pub struct Outcome {
    pub way: &'static str,
    pub clients: usize,
    /// How long each held the lock.
    pub hold: Duration,
    pub rate: f64,
    /// From asking to having. Those who still waited at the end are in it, with their wait so far.
    pub wait: Spread,
    /// From the sending of a release to the next holder's reply.
    pub idle: Spread,
    /// Jain's index over the clients' grants.
    pub jain: f64,
    /// The same beside the best that was possible with as many grants.
    pub fairness: f64,
    /// Commands that the server executed for each grant, those in scripts too.
    pub commands: f64,
    /// Bytes that the server read and wrote for each grant.
    pub bytes: f64,
    /// Seconds of the server's CPU for each grant.
    pub cpu: f64,
}

pub async fn run(bench: &Bench) -> Result<()> {
    bench.title("Contention: many clients on one lock");
    limits::raise_open_files(10_000)?;
    let most = limits::connections()? / PubSub::CONNECTIONS;
    let mut all = Vec::new();
    for clients in limits::steps(&CLIENTS, most, "clients") {
        for hold in HOLDS {
            let load = Load {
                clients,
                hold,
                span: bench.shortened(span(clients, hold)),
                one_process: false,
            };
            let outcomes = [
                attempt::<Polling<1>>(bench, &load).await?,
                attempt::<Polling<10>>(bench, &load).await?,
                attempt::<Polling<100>>(bench, &load).await?,
                attempt::<Blpop>(bench, &load).await?,
                attempt::<PubSub>(bench, &load).await?,
                attempt::<Module>(bench, &load).await?,
            ];
            let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
            println!("{}", table(&some(clients, "client"), hold, &outcomes));
            for outcome in outcomes.iter().filter(|_| hold == DRAWN) {
                keep(bench, outcome);
            }
            all.extend(outcomes);
        }
    }
    bench.judge(PART, goals(&all));
    Ok(())
}

/// Long enough for each client to have a few turns, where that can be had in seconds.
fn span(clients: usize, hold: Duration) -> Duration {
    let turn = (hold + Duration::from_micros(100)) * clients.try_into().unwrap_or(u32::MAX);
    (turn * 5 / 2).clamp(Duration::from_secs(1), Duration::from_secs(3))
}

/// How many clients, and what they do.
#[derive(Clone, Copy)]
pub struct Load {
    pub clients: usize,
    /// For how long each holds the lock.
    pub hold: Duration,
    pub span: Duration,
    /// Whether all clients are tasks of one process, or each is a process of its own.
    pub one_process: bool,
}

async fn attempt<W: Way>(bench: &Bench, load: &Load) -> Result<Option<Outcome>> {
    let (clients, hold) = (some(load.clients, "client"), ms(load.hold));
    let what = format!("{clients}, held {hold}: {}", W::NAME);
    let measuring = measure::<W>(load);
    bench.attempt(PART, &what, load.span, measuring).await
}

/// Each on a server of its own, where no other has left anything behind.
pub async fn measure<W: Way>(load: &Load) -> Result<Outcome> {
    let server = Server::start(W::WITH).await?;
    let mut control = server.connect().await?;

    let log = Rc::new(RefCell::new(Log::new(load.clients)));
    let start = Rc::new(Turnstile::default());
    let mut tasks = Vec::with_capacity(load.clients);
    let process = Rc::new(Process::new(server.address()));
    for client in 0..load.clients {
        let mut venue = Venue::new(server.address(), KEY, client);
        if load.one_process {
            venue.process = Rc::clone(&process);
        }
        let way = W::connect(venue).await?;
        let (log, start, hold) = (Rc::clone(&log), Rc::clone(&start), load.hold);
        tasks.push(spawn(async move {
            start.pass().await;
            if let Err(error) = take_turns(way, client, &log, hold).await {
                log.borrow_mut().trouble = Some(error);
            }
        }));
    }

    // From here on it lives as long as its tasks.
    drop(process);
    start.open(load.clients);
    // All have asked by then. The first rush is over when the server, too, has gone round once.
    sleep(FIRST_RUSH).await;
    control.work().await?;
    let before = control.work().await?;
    let began = Instant::now();
    log.borrow_mut().count_from_here();
    sleep(load.span).await;
    let after = control.work().await?;
    let now = Instant::now();
    let log = mem::replace(&mut *log.borrow_mut(), Log::new(load.clients));
    // All at once: one by one would take as many turns of the loop, in which the others go on.
    drop(tasks);
    control.clear().await?;

    if let Some(trouble) = log.trouble {
        return Err(trouble);
    }
    let grants = log.waits.len() as f64;
    let unfinished = log.waiting_since.iter().flatten();
    let unfinished = unfinished.map(|&since| now.saturating_duration_since(since).as_secs_f64());
    Ok(Outcome {
        way: W::NAME,
        clients: load.clients,
        hold: load.hold,
        rate: grants / (now - began).as_secs_f64(),
        wait: Spread::of(log.waits.into_iter().chain(unfinished).collect()),
        idle: Spread::of(log.idle),
        jain: jain(&log.grants),
        fairness: fairness(&log.grants),
        commands: (after.commands - before.commands) / grants,
        bytes: (after.bytes - before.bytes) / grants,
        cpu: (after.cpu - before.cpu) / grants,
    })
}

/// Never ends by itself: the measurement ends it.
async fn take_turns<W: Way>(
    mut way: W,
    client: usize,
    log: &RefCell<Log>,
    hold: Duration,
) -> Result<()> {
    loop {
        log.borrow_mut().asks(client);
        way.acquire().await?;
        log.borrow_mut().is_granted(client)?;
        if !hold.is_zero() {
            sleep(hold).await;
        }
        log.borrow_mut().releases();
        way.release().await?;
    }
}

/// What happens at the lock, as seen by the one clock of all clients.
struct Log {
    /// From asking to having, in seconds.
    waits: Vec<f64>,
    /// From the sending of a release to the next holder's reply.
    idle: Vec<f64>,
    grants: Vec<u64>,
    waiting_since: Vec<Option<Instant>>,
    trouble: Option<anyhow::Error>,
    holder: Option<usize>,
    released: Option<Instant>,
}

impl Log {
    fn new(clients: usize) -> Log {
        Log {
            waits: Vec::with_capacity(100_000),
            idle: Vec::with_capacity(100_000),
            grants: vec![0; clients],
            waiting_since: vec![None; clients],
            trouble: None,
            holder: None,
            released: None,
        }
    }

    /// Forgets what was counted, but not which client holds the lock, which wait, and since when.
    fn count_from_here(&mut self) {
        self.waits.clear();
        self.idle.clear();
        self.grants.fill(0);
    }

    fn asks(&mut self, client: usize) {
        if let Some(since) = self.waiting_since.get_mut(client) {
            *since = Some(Instant::now());
        }
    }

    /// A client was told that it holds the lock, which no other may hold then.
    fn is_granted(&mut self, client: usize) -> Result<()> {
        let now = Instant::now();
        if let Some(other) = self.holder.replace(client) {
            bail!("client {client} was given a lock that client {other} held");
        }
        if let Some(since) = self.waiting_since.get_mut(client).and_then(Option::take) {
            self.waits.push((now - since).as_secs_f64());
        }
        if let Some(released) = self.released.take() {
            self.idle.push((now - released).as_secs_f64());
        }
        if let Some(grants) = self.grants.get_mut(client) {
            *grants += 1;
        }
        Ok(())
    }

    fn releases(&mut self) {
        self.holder = None;
        self.released = Some(Instant::now());
    }
}

/// Those of one load beside each other, for the terminal.
pub fn table(clients: &str, hold: Duration, outcomes: &[Outcome]) -> String {
    let load = format!("{clients}, held {}", ms(hold));
    let mut table = Table::new(&[
        &load, "grants/s", "wait p50", "p99", "max", "idle p50", "idle p99", "fairness",
        "commands", "bytes", "CPU",
    ]);
    for outcome in outcomes {
        table.row([
            outcome.way.to_owned(),
            count(outcome.rate),
            time(outcome.wait.p50),
            time(outcome.wait.p99),
            time(outcome.wait.max),
            outcome.idle.shown(outcome.idle.p50),
            outcome.idle.shown(outcome.idle.p99),
            format!("{:.3}", outcome.fairness),
            times(outcome.commands),
            count(outcome.bytes),
            time(outcome.cpu),
        ]);
    }
    table.text()
}

fn keep(bench: &Bench, outcome: &Outcome) {
    let figures = json!({
        "clients": outcome.clients,
        "grants_per_second": outcome.rate,
        "fairness": outcome.fairness,
        "wait": { "p50_us": outcome.wait.p50 * 1e6, "p99_us": outcome.wait.p99 * 1e6 },
        "idle": { "p50_us": outcome.idle.p50 * 1e6 },
        "commands_per_grant": outcome.commands,
    });
    bench.keep(PART, outcome.way, &figures);
}

/// At 64 clients with short holds; and the commands of a grant at any load.
fn goals(outcomes: &[Outcome]) -> Vec<Goal> {
    let mut goals = Vec::new();
    for hold in [Duration::ZERO, Duration::from_millis(1)] {
        let of_load = || {
            let those = outcomes.iter();
            those.filter(|outcome| (outcome.clients, outcome.hold) == (64, hold))
        };
        let find = |way: &str| of_load().find(|outcome| outcome.way == way);
        let Some(ours) = find(Module::NAME) else {
            continue;
        };
        let name = |what: &str| format!("64 clients, held {}: {what}", ms(hold));
        let fair_rival = of_load()
            .filter(|outcome| outcome.way != Module::NAME && outcome.jain >= FAIR)
            .max_by(|one, other| one.rate.total_cmp(&other.rate));
        let (most, whose) =
            fair_rival.map_or((0.0, "no rival is fair"), |rival| (rival.rate, rival.way));
        goals.push(Goal::at_least(name("grants in a second"), ours.rate, most, count).of(whose));
        for (rival, part, whose) in [
            (Polling::<1>::NAME, 0.2, "a fifth of the 1 ms poller's"),
            (Blpop::NAME, 0.5, "half of the BLPOP signal's"),
        ] {
            if let Some(rival) = find(rival) {
                let most = rival.wait.p99 * part;
                goals.push(Goal::at_most(name("wait p99"), ours.wait.p99, most, time).of(whose));
            }
        }
        let index = |index: f64| format!("{index:.3}");
        goals.push(Goal::at_least(name("Jain's index"), ours.jain, 0.99, index));
    }
    let ours = outcomes.iter().filter(|outcome| outcome.way == Module::NAME);
    if let Some(most) = ours.map(|outcome| outcome.commands).reduce(f64::max) {
        let name = "commands for a grant, at the most";
        goals.push(Goal::at_most(name, most, 2.1, times));
    }
    goals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::block_on;
    use crate::ways::Unlocked;

    #[test]
    fn two_holders_at_a_time_are_noticed() {
        let load = Load {
            clients: 2,
            hold: Duration::from_millis(1),
            span: Duration::from_millis(50),
            one_process: false,
        };
        let trouble = block_on(measure::<Unlocked>(&load)).err();
        let trouble = trouble.map(|error| error.to_string()).unwrap_or_default();
        assert!(trouble.contains("was given a lock that client"), "{trouble}");
    }

    #[test]
    fn only_a_fair_rival_may_not_be_faster_and_a_lock_that_waits_or_shares_badly_misses_its_goals()
    {
        let one = |way, rate, jain, p99| Outcome {
            way,
            clients: 64,
            rate,
            jain,
            wait: Spread { p99, ..Spread::default() },
            commands: 2.0,
            ..Outcome::default()
        };
        let met = |rival_jain, jain, p99| -> Vec<bool> {
            let outcomes = [
                one(Polling::<1>::NAME, 900.0, rival_jain, 0.5),
                one(Blpop::NAME, 100.0, 1.0, 0.2),
                one(Module::NAME, 500.0, jain, p99),
            ];
            goals(&outcomes).iter().map(|goal| goal.met).collect()
        };
        assert_eq!(met(0.9, 1.0, 0.1), [true; 5]);
        assert_eq!(met(0.96, 1.0, 0.1), [false, true, true, true, true]);
        assert_eq!(met(0.9, 0.98, 0.11), [true, false, false, false, true]);
    }
}
