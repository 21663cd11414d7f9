//! Many clients on one lock: who gets it, how soon, and what that costs the server.

use crate::bench::{Bench, Figures};
use crate::limits;
use crate::picture::{self, Panel, Series};
use crate::runtime::{Turnstile, sleep, spawn};
use crate::server::{Server, With};
use crate::stats::{Spread, fairness, jain};
use crate::ways::blpop::Blpop;
use crate::ways::keyspace::Keyspace;
use crate::ways::module::Module;
use crate::ways::polling::Polling;
use crate::ways::pubsub::PubSub;
use crate::ways::{Venue, Way};
use crate::words::{Table, count, ms, time, times};
use anyhow::{Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::json;
use std::cell::RefCell;
use std::mem;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

const CLIENTS: [usize; 5] = [2, 8, 64, 512, 4096];
const HOLDS: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(10),
];
const FIRST_RUSH: Duration = Duration::from_millis(100);
const KEY: &str = "lock:market";

/// What one way did under one load.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The way.
    pub way: &'static str,
    /// How many clients.
    pub clients: usize,
    /// How long each held the lock.
    pub hold: Duration,
    /// For how long this was measured, in seconds.
    pub seconds: f64,
    /// Grants.
    pub grants: usize,
    /// From asking to having. Those who still waited at the end are in it, with their wait so far.
    pub wait: Spread,
    /// How many those were.
    pub unfinished: usize,
    /// From the sending of a release to the next holder's answer.
    pub idle: Spread,
    /// Jain's index over the clients' grants.
    pub jain: f64,
    /// The same beside the best that was possible with as many grants.
    pub fairness: f64,
    /// Commands that the server executed, those in scripts too, for each grant.
    pub commands: f64,
    /// Commands that clients sent, for each grant.
    pub sent: f64,
    /// Seconds of the server's CPU for each grant.
    pub cpu: f64,
    /// How much of a core the clients took all together.
    pub client_load: f64,
}

impl Outcome {
    /// Grants in a second.
    pub fn rate(&self) -> f64 {
        self.grants as f64 / self.seconds
    }
}

/// Measures all ways under all loads.
pub async fn run(bench: &mut Bench) -> Result<Vec<Outcome>> {
    limits::raise_open_files(10_000)?;
    let plain = Server::start(With::Nothing).await?;
    let module = Server::start(With::Module).await?;
    let servers = [&plain, &module];
    let mut all = Vec::new();
    for wanted in CLIENTS {
        let clients = wanted.min(limits::connections()? / PubSub::CONNECTIONS);
        if clients < wanted {
            bench.say(&format!(
                "{} clients instead of {}: the limit on open files (ulimit -n) allows no more",
                count(clients as f64),
                count(wanted as f64)
            ));
        }
        for hold in HOLDS {
            let load = Load {
                clients,
                hold,
                span: bench.shortened(span(clients, hold)),
            };
            let outcomes = [
                measure::<Polling<1>>(bench, &load, servers).await?,
                measure::<Polling<10>>(bench, &load, servers).await?,
                measure::<Polling<100>>(bench, &load, servers).await?,
                measure::<Blpop>(bench, &load, servers).await?,
                measure::<PubSub>(bench, &load, servers).await?,
                measure::<Keyspace>(bench, &load, servers).await?,
                measure::<Module>(bench, &load, servers).await?,
            ];
            bench.say(&table(&load, &outcomes));
            for outcome in &outcomes {
                bench.keep(figures(outcome));
            }
            all.extend(outcomes);
        }
    }
    Ok(all)
}

/// Long enough for each client to have a few turns, where that can be had in seconds.
fn span(clients: usize, hold: Duration) -> Duration {
    let turn = (hold + Duration::from_micros(100)) * clients.try_into().unwrap_or(u32::MAX);
    (turn * 5 / 2).clamp(Duration::from_secs(1), Duration::from_secs(4))
}

struct Load {
    clients: usize,
    hold: Duration,
    span: Duration,
}

/// What happens at the lock, as seen by the one clock of all clients.
#[derive(Debug)]
struct Log {
    waits: Vec<f64>,
    idle: Vec<f64>,
    grants: Vec<u64>,
    waiting_since: Vec<Option<Instant>>,
    holder: Option<usize>,
    released: Option<Instant>,
    trouble: Option<anyhow::Error>,
    commands: u64,
}

impl Log {
    fn new(clients: usize) -> Log {
        Log {
            waits: Vec::with_capacity(100_000),
            idle: Vec::with_capacity(100_000),
            grants: vec![0; clients],
            waiting_since: vec![None; clients],
            holder: None,
            released: None,
            trouble: None,
            commands: 0,
        }
    }

    /// Forgets what was counted, and not who holds the lock and who waits, nor since when.
    fn count_from_here(&mut self) {
        self.waits.clear();
        self.idle.clear();
        self.grants.fill(0);
        self.commands = 0;
    }

    fn asks(&mut self, client: usize) {
        if let Some(since) = self.waiting_since.get_mut(client) {
            *since = Some(Instant::now());
        }
    }

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

async fn measure<W: Way>(bench: &Bench, load: &Load, servers: [&Server; 2]) -> Result<Outcome> {
    bench.progress(&format!(
        "{} clients, held {}: {}",
        count(load.clients as f64),
        ms(load.hold),
        W::NAME
    ));
    let [plain, with_module] = servers;
    let server = if W::MODULE { with_module } else { plain };
    let mut control = server.control().await?;
    control.set("notify-keyspace-events", W::EVENTS).await?;

    let log = Rc::new(RefCell::new(Log::new(load.clients)));
    let start = Rc::new(Turnstile::default());
    let mut tasks = Vec::with_capacity(load.clients);
    for client in 0..load.clients {
        let way = W::connect(Venue::new(server.address(), KEY, client)).await?;
        let (log, start, hold) = (Rc::clone(&log), Rc::clone(&start), load.hold);
        tasks.push(spawn(async move {
            start.pass().await;
            if let Err(error) = take_turns(way, client, &log, hold).await {
                log.borrow_mut().trouble = Some(error);
            }
        }));
    }

    start.open(load.clients);
    // The first rush is over when the server answers in between.
    sleep(FIRST_RUSH).await;
    let before = control.work().await?;
    let own = client_cpu()?;
    let began = Instant::now();
    log.borrow_mut().count_from_here();
    sleep(load.span).await;
    let after = control.work().await?;
    let seconds = began.elapsed().as_secs_f64();
    let own = client_cpu()? - own;
    let log = mem::replace(&mut *log.borrow_mut(), Log::new(load.clients));
    for task in tasks {
        task.cancel().await;
    }
    control.clear().await?;

    if let Some(trouble) = log.trouble {
        return Err(trouble.context(W::NAME));
    }
    let grants = log.waits.len();
    let now = began + Duration::from_secs_f64(seconds);
    let still = log.waiting_since.iter().flatten();
    let unfinished: Vec<f64> = still
        .map(|&since| now.saturating_duration_since(since).as_secs_f64())
        .collect();
    let per_grant = |amount: f64| amount / grants as f64;
    Ok(Outcome {
        way: W::NAME,
        clients: load.clients,
        hold: load.hold,
        seconds,
        grants,
        unfinished: unfinished.len(),
        wait: Spread::of(log.waits.into_iter().chain(unfinished).collect()),
        idle: Spread::of(log.idle),
        jain: jain(&log.grants),
        fairness: fairness(&log.grants),
        commands: per_grant(after.commands - before.commands),
        sent: per_grant(log.commands as f64),
        cpu: per_grant(after.cpu - before.cpu),
        client_load: own / seconds,
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
        let sent = way.commands();
        log.borrow_mut().asks(client);
        way.acquire().await?;
        log.borrow_mut().is_granted(client)?;
        if !hold.is_zero() {
            sleep(hold).await;
        }
        log.borrow_mut().releases();
        way.release().await?;
        log.borrow_mut().commands += way.commands() - sent;
    }
}

/// Seconds of CPU that this process has used.
fn client_cpu() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let us = (usage.user_time() + usage.system_time()).num_microseconds();
    Ok(us as f64 / 1e6)
}

fn table(load: &Load, outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&[
        &format!(
            "{} clients, held {}",
            count(load.clients as f64),
            ms(load.hold)
        ),
        "grants/s",
        "wait p50",
        "p99",
        "max",
        "max/mean",
        "idle p50",
        "idle p99",
        "fairness",
        "commands",
        "CPU",
    ]);
    for outcome in outcomes {
        table.row(vec![
            outcome.way.to_owned(),
            count(outcome.rate()),
            time(outcome.wait.p50),
            time(outcome.wait.p99),
            time(outcome.wait.max),
            times(outcome.wait.max / outcome.wait.mean),
            outcome.idle.shown(outcome.idle.p50),
            outcome.idle.shown(outcome.idle.p99),
            format!("{:.3}", outcome.fairness),
            times(outcome.commands),
            time(outcome.cpu),
        ]);
    }
    table.text()
}

fn figures(outcome: &Outcome) -> Figures {
    Figures::new(
        "contention",
        outcome.way,
        json!({
            "clients": outcome.clients,
            "hold_ms": outcome.hold.as_millis(),
            "seconds": outcome.seconds,
            "grants": outcome.grants,
            "grants_per_second": outcome.rate(),
            "wait": outcome.wait.to_json(),
            "unfinished_waits": outcome.unfinished,
            "without_holder": outcome.idle.to_json(),
            "jain": outcome.jain,
            "fairness": outcome.fairness,
            "longest_wait_to_mean": outcome.wait.max / outcome.wait.mean,
            "commands_per_grant": outcome.commands,
            "commands_sent_per_grant": outcome.sent,
            "server_cpu_us_per_grant": outcome.cpu * 1e6,
            "client_load": outcome.client_load,
        }),
    )
}

/// One picture for each hold time.
pub fn draw(outcomes: &[Outcome], folder: &Path) -> Result<()> {
    for hold in HOLDS {
        let of_hold: Vec<&Outcome> = outcomes
            .iter()
            .filter(|outcome| outcome.hold == hold)
            .collect();
        let panel = |title, value: fn(&Outcome) -> f64, label| Panel {
            title,
            series: series(&of_hold, value),
            label,
        };
        let panels = [
            panel("grants in a second", Outcome::rate, count),
            panel(
                "99 of 100 waits were shorter",
                |outcome| outcome.wait.p99,
                time,
            ),
            panel(
                "without a holder (median)",
                |outcome| outcome.idle.p50,
                time,
            ),
            panel("commands for one grant", |outcome| outcome.commands, times),
        ];
        let title = format!("Clients on one lock, each holds it for {}", ms(hold));
        let file = format!("contention-{}ms.svg", hold.as_millis());
        picture::lines(&folder.join(file), &title, "clients", &panels)?;
    }
    Ok(())
}

fn series(outcomes: &[&Outcome], value: fn(&Outcome) -> f64) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for outcome in outcomes {
        let point = (outcome.clients as f64, value(outcome));
        match all.iter_mut().find(|series| series.name == outcome.way) {
            Some(series) => series.points.push(point),
            None => all.push(Series {
                name: outcome.way,
                points: vec![point],
            }),
        }
    }
    all
}
