//! From the sending of a release to the next holder's reply, with many in the queue.
//!
//! LOCK and the server's own best take turns, hand-over by hand-over, each on a server of its own,
//! so that whatever the machine does in between meets both of them.

use crate::bench::{Bench, Figures};
use crate::idle::Idle;
use crate::limits;
use crate::runtime::{Turnstile, sleep, spawn};
use crate::server::{Server, With};
use crate::stats::Spread;
use crate::ways::blpop::Blpop;
use crate::ways::module::Module;
use crate::ways::token_list::TokenList;
use crate::ways::{Venue, Way};
use crate::words::{Table, count, time, times};
use anyhow::{Context, Result, bail};
use async_task::Task;
use futures_lite::future;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

const WAITERS: [usize; 4] = [1, 100, 1000, 9000];
const HANDOVERS: usize = 300;
/// There are fewer where each takes long: the BLPOP of newer servers grows with the queue.
const AT_MOST: Duration = Duration::from_secs(8);
/// These only warm up.
const FIRST_ROUNDS: usize = 5;
/// After a hand-over the last holder joins the end of the queue. This is far more than it needs.
const BETWEEN: Duration = Duration::from_millis(1);
/// So long the longest queue takes, about.
const SPAN: Duration = Duration::from_secs(20);
const TOO_LONG: Duration = Duration::from_secs(10);

/// How fast one way hands over.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The way.
    pub way: &'static str,
    /// How many wait.
    pub waiters: usize,
    /// From the sending of the release to the next holder's reply.
    pub latency: Spread,
    /// Seconds of the server's CPU for one, with the request by which the last holder joins again;
    /// without what the server uses while nothing happens.
    pub cpu: f64,
}

/// Measures the ways that keep a queue in the server.
pub async fn run(bench: &mut Bench) -> Result<Vec<Outcome>> {
    limits::raise_open_files(30_000)?;
    let mut all = Vec::new();
    // Two queues at a time.
    let most = limits::connections()? / 2 - 10;
    if let Some(remark) = limits::remark(&WAITERS, most, "waiters") {
        bench.say(&remark);
    }
    for waiters in limits::steps(&WAITERS, most) {
        let what = format!("{} in the queue", count(waiters as f64));
        let rounds = bench.fewer(HANDOVERS);
        let measuring = measure(waiters, rounds);
        let Some(outcomes) = bench.attempt("handover", &what, SPAN, measuring).await? else {
            continue;
        };
        bench.say(&table(waiters, &outcomes));
        for outcome in &outcomes {
            bench.keep(figures(outcome));
        }
        all.extend(outcomes);
    }
    Ok(all)
}

async fn measure(waiters: usize, rounds: usize) -> Result<Vec<Outcome>> {
    let best = Line::form::<TokenList>(waiters).await?;
    let ours = Line::form::<Module>(waiters).await?;
    let mut outcomes = hand_over(vec![best, ours], rounds).await?;
    let other = Line::form::<Blpop>(waiters).await?;
    outcomes.extend(hand_over(vec![other], rounds).await?);
    Ok(outcomes)
}

/// One way alone, with so many who wait.
pub async fn of<W: Way>(waiters: usize, rounds: usize) -> Result<Vec<Outcome>> {
    hand_over(vec![Line::form::<W>(waiters).await?], rounds).await
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
            line.hand_over().await?;
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

#[derive(Debug, Default)]
struct State {
    /// Lets the holder release.
    turn: Turnstile,
    /// Opens with each grant.
    granted: Turnstile,
    released: Cell<Option<Instant>>,
    latencies: RefCell<Vec<f64>>,
    trouble: RefCell<Option<anyhow::Error>>,
}

impl Line {
    async fn form<W: Way>(waiters: usize) -> Result<Line> {
        let server = Server::start(With::what_needs::<W>()).await?;
        let mut control = server.control().await?;
        control.lift_limits(With::what_needs::<W>()).await?;
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
        let blocked = u64::try_from(waiters)?;
        control
            .wait_for("blocked_clients", |clients| clients == blocked)
            .await
            .context(W::NAME)?;
        let line = Line {
            way: W::NAME,
            waiters,
            state,
            idle: Idle::default(),
            _clients: clients,
            server,
        };
        line.wait_for_grant().await?;
        Ok(line)
    }

    async fn hand_over(&self) -> Result<()> {
        self.state.turn.open(1);
        self.wait_for_grant().await?;
        sleep(BETWEEN).await;
        Ok(())
    }

    async fn wait_for_grant(&self) -> Result<()> {
        let granted = async {
            self.state.granted.pass().await;
            true
        };
        let too_late = async {
            sleep(TOO_LONG).await;
            false
        };
        let in_time = future::or(granted, too_late).await;
        if let Some(trouble) = self.state.trouble.take() {
            return Err(trouble.context(self.way));
        }
        if !in_time {
            bail!("{}: nobody got the lock in {TOO_LONG:?}", self.way);
        }
        Ok(())
    }

    fn disperse(self) -> Result<Outcome> {
        let latency = Spread::of(mem::take(&mut *self.state.latencies.borrow_mut()));
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

fn table(waiters: usize, outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&[
        &format!("{} in the queue", count(waiters as f64)),
        "p50",
        "p99",
        "max",
        "p50, bare BLPOP = 1",
        "CPU",
    ]);
    let bare = outcomes
        .iter()
        .find(|outcome| outcome.way == TokenList::NAME);
    let bare = bare.map_or(f64::NAN, |outcome| outcome.latency.p50);
    for outcome in outcomes {
        table.row(vec![
            outcome.way.to_owned(),
            time(outcome.latency.p50),
            time(outcome.latency.p99),
            time(outcome.latency.max),
            times(outcome.latency.p50 / bare),
            time(outcome.cpu),
        ]);
    }
    table.text()
}

fn figures(outcome: &Outcome) -> Figures {
    let fields = json!({
        "waiters": outcome.waiters,
        "latency": outcome.latency.to_json(),
        "server_cpu_us": outcome.cpu * 1e6,
    });
    Figures::new("handover", outcome.way, fields)
}
