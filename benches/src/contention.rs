//! Many clients on one lock: who gets it, how soon, and what that costs the server.

mod log;
mod report;

use crate::bench::Bench;
use crate::limits;
use crate::process::Process;
use crate::runtime::{Turnstile, sleep, spawn};
use crate::server::{Server, With};
use crate::stats::{Spread, fairness, jain};
use crate::ways::blpop::Blpop;
use crate::ways::keyspace::Keyspace;
use crate::ways::module::Module;
use crate::ways::polling::Polling;
use crate::ways::pubsub::PubSub;
use crate::ways::{Venue, Way};
use crate::words::{ms, some};
use anyhow::Result;
use log::Log;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
pub use report::figures;
use report::table;
use std::cell::RefCell;
use std::mem;
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
#[derive(Debug, Clone, Default)]
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
    /// From the sending of a release to the next holder's reply.
    pub idle: Spread,
    /// Jain's index over the clients' grants.
    pub jain: f64,
    /// The same beside the best that was possible with as many grants.
    pub fairness: f64,
    /// Commands that the server executed, those in scripts too, for each grant.
    pub commands: f64,
    /// Commands that clients sent, for each grant.
    pub sent: f64,
    /// Bytes that the server read and wrote, for each grant.
    pub bytes: f64,
    /// Seconds of the server's CPU for each grant.
    pub cpu: f64,
    /// How much of a core the clients took all together.
    pub client_load: f64,
    /// What each client was granted.
    pub shares: Vec<u64>,
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
    let mut all = Vec::new();
    let most = limits::connections()? / PubSub::CONNECTIONS;
    if let Some(remark) = limits::remark(&CLIENTS, most, "clients") {
        bench.say(&remark);
    }
    for clients in limits::steps(&CLIENTS, most) {
        for hold in HOLDS {
            let load = Load {
                clients,
                hold,
                span: bench.shortened(span(clients, hold)),
                one_process: false,
            };
            let outcomes: Vec<Outcome> = [
                attempt::<Polling<1>>(bench, &load).await?,
                attempt::<Polling<10>>(bench, &load).await?,
                attempt::<Polling<100>>(bench, &load).await?,
                attempt::<Blpop>(bench, &load).await?,
                attempt::<PubSub>(bench, &load).await?,
                attempt::<Keyspace>(bench, &load).await?,
                attempt::<Module>(bench, &load).await?,
            ]
            .into_iter()
            .flatten()
            .collect();
            bench.say(&table(&load, &outcomes));
            for outcome in &outcomes {
                bench.keep(figures("contention", outcome));
            }
            all.extend(outcomes);
        }
    }
    Ok(all)
}

/// Long enough for each client to have a few turns, where that can be had in seconds.
fn span(clients: usize, hold: Duration) -> Duration {
    let turn = (hold + Duration::from_micros(100)) * clients.try_into().unwrap_or(u32::MAX);
    (turn * 5 / 2).clamp(Duration::from_secs(1), Duration::from_secs(3))
}

/// How many clients, and what they do.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// The clients.
    pub clients: usize,
    /// For how long each holds the lock.
    pub hold: Duration,
    /// For how long this is measured.
    pub span: Duration,
    /// Whether all clients are tasks of one process, or each is a process of its own.
    pub one_process: bool,
}

async fn attempt<W: Way>(bench: &Bench, load: &Load) -> Result<Option<Outcome>> {
    let what = format!(
        "{}, held {}: {}",
        some(load.clients, "client"),
        ms(load.hold),
        W::NAME
    );
    bench
        .attempt("contention", &what, load.span, measure::<W>(load))
        .await
}

/// Each on a server of its own: nobody finds what somebody else has left behind.
pub async fn measure<W: Way>(load: &Load) -> Result<Outcome> {
    let server = Server::start(With::what_needs::<W>()).await?;
    measure_on::<W>(&server, load).await
}

/// On a server that nobody has used before.
pub async fn measure_on<W: Way>(server: &Server, load: &Load) -> Result<Outcome> {
    let mut control = server.control().await?;
    control.set("notify-keyspace-events", W::EVENTS).await?;

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
    let own = client_cpu()?;
    let began = Instant::now();
    log.borrow_mut().count_from_here();
    sleep(load.span).await;
    let after = control.work().await?;
    let seconds = began.elapsed().as_secs_f64();
    let own = client_cpu()? - own;
    let log = mem::replace(&mut *log.borrow_mut(), Log::new(load.clients));
    // All at once: one by one would take as many turns of the loop, in which the others go on.
    drop(tasks);
    control.clear().await?;

    if let Some(trouble) = log.trouble {
        return Err(trouble);
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
        bytes: per_grant(after.bytes - before.bytes),
        cpu: per_grant(after.cpu - before.cpu),
        client_load: own / seconds,
        shares: log.grants,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::block_on;
    use crate::ways::unlocked::Unlocked;

    #[test]
    fn two_holders_at_a_time_are_noticed() -> Result<()> {
        let load = Load {
            clients: 2,
            hold: Duration::from_millis(1),
            span: Duration::from_millis(50),
            one_process: false,
        };
        let outcome = block_on(async move { measure::<Unlocked>(&load).await })?;
        let trouble = outcome.err().map(|error| error.to_string());
        let trouble = trouble.unwrap_or_default();
        assert!(
            trouble.contains("was given a lock that client"),
            "{trouble}"
        );
        Ok(())
    }
}
