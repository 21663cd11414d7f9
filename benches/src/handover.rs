//! How soon the next holder has its reply: after a release, with many in the queue, and after an expiry.
//!
//! LOCK and the server's own best take turns, hand-over by hand-over, each on a server of its own, so that whatever the
//! machine does in between meets both of them.

use crate::bench::{Bench, Goal};
use crate::limits;
use crate::runtime::{Task, Turnstile, sleep, spawn, within};
use crate::server::{Idle, Server};
use crate::stats::Spread;
use crate::ways::module::{Module, TokenList};
use crate::ways::polling::Polling;
use crate::ways::signals::{Blpop, PubSub};
use crate::ways::{Connected, Venue, Way};
use crate::words::{Table, count, time, times};
use anyhow::{Context, Result};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PART: &str = "handover";
const WAITERS: [usize; 4] = [1, 100, 1000, 9000];
const HANDOVERS: usize = 300;
/// There are fewer where each takes long: the BLPOP of newer servers grows with the queue.
const AT_MOST: Duration = Duration::from_secs(8);
const FIRST_ROUNDS: usize = 5;
/// After a hand-over the last holder joins the end of the queue. This is far more than it needs.
const BETWEEN: Duration = Duration::from_millis(1);
/// So long the longest queue takes, about.
const SPAN: Duration = Duration::from_secs(20);
const TOO_LONG: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
struct Outcome {
    way: &'static str,
    waiters: usize,
    /// From the sending of the release to the next holder's reply.
    latency: Spread,
    /// Seconds of the server's CPU for one, with the request by which the last holder joins again;
    /// without what the server uses while nothing happens.
    cpu: f64,
}

/// Measures the ways that keep a queue in the server, and then the expiries of all.
pub async fn run(bench: &Bench) -> Result<()> {
    bench.title("Hand-over: from a release to the next holder's reply");
    limits::raise_open_files(30_000)?;
    // Two queues at a time.
    let most = limits::connections()? / 2 - 10;
    let mut all = Vec::new();
    for waiters in limits::steps(&WAITERS, most, "waiters") {
        let what = format!("{} in the queue", count(waiters as f64));
        let rounds = bench.fewer(HANDOVERS);
        let measuring = async {
            let best = Line::form::<TokenList>(waiters).await?;
            let ours = Line::form::<Module>(waiters).await?;
            let mut outcomes = hand_over(vec![best, ours], rounds).await?;
            let other = vec![Line::form::<Blpop>(waiters).await?];
            outcomes.extend(hand_over(other, rounds).await?);
            Ok(outcomes)
        };
        let outcomes = bench.attempt(PART, &what, SPAN, measuring).await?.unwrap_or_default();
        let mut table = Table::new(&[&what, "p50", "p99", "max", "CPU"]);
        for outcome in &outcomes {
            let Outcome { way, latency, cpu, .. } = outcome;
            table.row([
                *way,
                &time(latency.p50),
                &time(latency.p99),
                &time(latency.max),
                &time(*cpu),
            ]);
            let figures = json!({ "waiters": waiters, "latency": { "p50_us": latency.p50 * 1e6 } });
            bench.keep(PART, way, &figures);
        }
        println!("{}", table.text());
        all.extend(outcomes);
    }
    bench.judge(PART, goals(&all));
    expiries(bench).await
}

async fn hand_over(mut lines: Vec<Line>, rounds: usize) -> Result<Vec<Outcome>> {
    for line in &mut lines {
        line.idle = Idle::of(&line.server).await?;
    }
    let began = Instant::now();
    for round in 0..rounds + FIRST_ROUNDS {
        if round > 2 * FIRST_ROUNDS && began.elapsed() > AT_MOST {
            break;
        }
        for line in &mut lines {
            line.state.turn.open(1);
            line.wait_for_grant().await?;
            sleep(BETWEEN).await;
            if round < FIRST_ROUNDS {
                line.state.latencies.borrow_mut().clear();
                line.idle.begin(&line.server)?;
            }
        }
    }
    lines.into_iter().map(Line::disperse).collect()
}

/// One holder and those behind it, on a server of their own.
struct Line {
    way: &'static str,
    waiters: usize,
    state: Rc<State>,
    idle: Idle,
    _clients: Vec<Task<()>>,
    server: Server,
}

#[derive(Default)]
struct State {
    turn: Turnstile,
    granted: Turnstile,
    released: Cell<Option<Instant>>,
    latencies: RefCell<Vec<f64>>,
    trouble: RefCell<Option<anyhow::Error>>,
}

impl Line {
    async fn form<W: Way>(waiters: usize) -> Result<Line> {
        let server = Server::start(W::WITH).await?;
        let mut control = server.connect().await?;
        control.lift_limits(W::WITH).await?;
        let state = Rc::new(State::default());
        let mut clients = Vec::with_capacity(waiters + 1);
        for client in 0..=waiters {
            let way = W::connect(Venue::new(server.address(), "lock", client)).await?;
            let state = Rc::clone(&state);
            clients.push(spawn(async move {
                if let Err(error) = take_turns(way, &state).await {
                    *state.trouble.borrow_mut() = Some(error);
                }
            }));
        }
        let blocked = waiters;
        control.wait_for("blocked_clients", |clients| clients == blocked).await.context(W::NAME)?;
        let line =
            Line { way: W::NAME, waiters, state, idle: Idle::default(), _clients: clients, server };
        line.wait_for_grant().await?;
        Ok(line)
    }

    async fn wait_for_grant(&self) -> Result<()> {
        let granted = within(TOO_LONG, self.state.granted.pass()).await;
        if let Some(trouble) = self.state.trouble.take() {
            return Err(trouble.context(self.way));
        }
        granted.with_context(|| format!("{}: no client got the lock in {TOO_LONG:?}", self.way))
    }

    fn disperse(self) -> Result<Outcome> {
        let latency = Spread::of(self.state.latencies.take());
        Ok(Outcome {
            way: self.way,
            waiters: self.waiters,
            cpu: self.idle.used_beyond(&self.server)? / latency.count as f64,
            latency,
        })
    }
}

async fn take_turns<W: Way>(mut way: W, state: &State) -> Result<()> {
    loop {
        way.acquire().await?;
        if let Some(released) = state.released.take() {
            let latency = released.elapsed().as_secs_f64();
            state.latencies.borrow_mut().push(latency);
        }
        state.granted.open(1);
        state.turn.pass().await;
        state.released.set(Some(Instant::now()));
        way.release().await?;
    }
}

/// With the longest line beside the server's own best, and beside a short line.
fn goals(outcomes: &[Outcome]) -> Vec<Goal> {
    let find = |way: &str, waiters: usize| {
        let mut those = outcomes.iter();
        let found = those.find(|outcome| outcome.way == way && outcome.waiters == waiters);
        found.map_or(f64::NAN, |outcome| outcome.latency.p50)
    };
    let Some(longest) = outcomes.iter().map(|outcome| outcome.waiters).max() else {
        return Vec::new();
    };
    let many = count(longest as f64);
    let beside = find(Module::NAME, longest) / find(TokenList::NAME, longest);
    let name = format!("hand-over p50, {many} in the queue");
    let mut goals = vec![Goal::at_most(name, beside, 1.3, times).of("times bare BLPOP's")];
    let growth = |way| find(way, longest) / find(way, 100);
    if growth(Module::NAME).is_finite() {
        let name = format!("hand-over p50, growth from 100 in the queue to {many}");
        let most = no_growth_beside(growth(TokenList::NAME));
        let goal = Goal::at_most(name, growth(Module::NAME), most, times);
        goals.push(goal.of("bare BLPOP's, and 20 %"));
    }
    goals
}

/// How much ours may grow where the server's own grows by so much. What grows by more than twice does so for another
/// reason than the caches of the processor, and 20 % are noise.
pub fn no_growth_beside(theirs: f64) -> f64 {
    theirs.clamp(1.0, 2.0) * 1.2
}

/// Locks that expire side by side, at different moments.
const LOCKS: usize = 10;
const EXPIRIES: usize = 200;
const SHORTEST: Duration = Duration::from_millis(100);
const APART: Duration = Duration::from_millis(7);
const EXPIRY: &str = "expiry";

async fn expiries(bench: &Bench) -> Result<()> {
    bench.title("Expiry: from the end of a hold that was not released");
    let mut table = Table::new(&["from the end of a hold to the next", "p50", "p99", "max", "of"]);
    expire::<Polling<1>>(bench, &mut table).await?;
    expire::<Polling<10>>(bench, &mut table).await?;
    expire::<Polling<100>>(bench, &mut table).await?;
    expire::<Blpop>(bench, &mut table).await?;
    expire::<PubSub>(bench, &mut table).await?;
    if let Some(ours) = expire::<Module>(bench, &mut table).await? {
        let name = "from the end of a hold to the next, p99";
        let goal = Goal::at_most(name, ours.p99, 0.005, time);
        bench.judge(EXPIRY, [goal.of("on a quiet machine")]);
    }
    println!("{}", table.text());
    Ok(())
}

async fn expire<W: Connected>(bench: &Bench, table: &mut Table) -> Result<Option<Spread>> {
    let what = format!("expiry: {}", W::NAME);
    let span = bench.shortened(Duration::from_secs(4));
    let late = bench.attempt(EXPIRY, &what, span, expired::<W>(span)).await?;
    if let Some(late) = late {
        let times = [late.p50, late.p99, late.max].map(|time| late.shown(time));
        let cells = [W::NAME.to_owned()].into_iter().chain(times);
        table.row(cells.chain([late.count.to_string()]));
    }
    Ok(late)
}

async fn expired<W: Connected>(span: Duration) -> Result<Spread> {
    let server = Server::start(W::WITH).await?;
    let mut control = server.connect().await?;
    let began = Instant::now();
    let mut late = Vec::new();
    while late.is_empty() || (began.elapsed() < span && late.len() < EXPIRIES) {
        let mut tasks = Vec::new();
        for lock in 0..LOCKS {
            let venue = Venue {
                ttl: SHORTEST + APART * u32::try_from(lock)?,
                ..Venue::new(server.address(), &format!("lock:{lock}"), lock)
            };
            tasks.push(spawn(outlive::<W>(venue)));
        }
        for task in tasks {
            late.push(task.await?);
        }
        control.clear().await?;
    }
    Ok(Spread::of(late))
}

/// How late the client that waits has the lock, after the end of a hold whose owner does nothing.
async fn outlive<W: Connected>(venue: Venue) -> Result<f64> {
    let key = venue.key.clone();
    let mut holder = W::connect(venue.clone()).await?;
    let mut waiter = W::connect(Venue { client: LOCKS + venue.client, ..venue }).await?;
    holder.acquire().await?;
    let ask = format!("PEXPIRETIME {key}");
    let end = holder.connection().call(&ask).await?.number()?;
    waiter.acquire().await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    Ok(now - end as f64 / 1e3)
}
