//! Tenants that share a pool of four: by a sorted set of leases in Lua, as it is published, by LIMIT, and by LIMIT FAIR.
//! What each tenant waits, where one floods the pool, where its jobs are long, and where its workers die.

use crate::bench::{Bench, Goal};
use crate::connection::Connection;
use crate::runtime::{sleep, spawn};
use crate::server::{Server, With};
use crate::stats::Spread;
use crate::words::{Table, count, time};
use anyhow::{Result, ensure};
use serde_json::json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

const PART: &str = "tenants";
const SPAN: Duration = Duration::from_secs(5);
/// How many jobs run at once.
const POOL: usize = 4;
/// How long a hold lasts if its worker dies.
const TTL: Duration = Duration::from_secs(1);
/// How often a worker asks that is not told.
const POLL: Duration = Duration::from_millis(10);

/// Takes a lease if fewer than so many have one that lasts.
const LEASE: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[2])
return 1";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Leases,
    Limit,
    Fair,
}

const WAYS: [Way; 3] = [Way::Leases, Way::Limit, Way::Fair];

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Leases => "leases in Lua, poll every 10 ms",
            Way::Limit => "LIMIT 4 SESSION",
            Way::Fair => "LIMIT 4 FAIR SESSION",
        }
    }

    async fn acquire(self, connection: &mut Connection, script: &str, owner: &str) -> Result<()> {
        let ttl = TTL.as_millis();
        let ask = format!("LOCK.ACQUIRE pool {owner} {ttl} BLOCK 0 SESSION LIMIT {POOL}");
        let fence = match self {
            Way::Limit => connection.call(&ask).await?.number()?,
            Way::Fair => connection.call(&format!("{ask} FAIR")).await?.number()?,
            Way::Leases => loop {
                let lease = format!("EVALSHA {script} 1 pool {POOL} {owner} {ttl}");
                match connection.call(&lease).await?.number()? {
                    0 => sleep(POLL).await,
                    leased => break leased,
                }
            },
        };
        ensure!(fence > 0, "{} answered {fence}", self.name());
        Ok(())
    }

    async fn release(self, connection: &mut Connection, owner: &str) -> Result<()> {
        let command = if self == Way::Leases { "ZREM" } else { "LOCK.RELEASE" };
        let released = connection.call(&format!("{command} pool {owner}")).await?.number()?;
        ensure!(released == 1, "{command} answered {released}");
        Ok(())
    }
}

/// One tenant's workers, and how long each of their jobs takes.
#[derive(Clone, Copy)]
struct Fleet {
    tenant: &'static str,
    workers: usize,
    job: Duration,
    /// It comes so much later than the others.
    comes_after: Duration,
    /// Its connections close after this time, in the middle of whatever they do.
    dies_after: Option<Duration>,
}

impl Fleet {
    const fn of(tenant: &'static str, workers: usize, job_ms: u64) -> Fleet {
        let job = Duration::from_millis(job_ms);
        Fleet { tenant, workers, job, comes_after: Duration::ZERO, dies_after: None }
    }
}

struct Scene {
    name: &'static str,
    /// What the figures call it.
    short: &'static str,
    fleets: [Fleet; 2],
}

fn scenes() -> [Scene; 3] {
    let late = Duration::from_millis(250);
    [
        Scene {
            name: "one floods, another comes",
            short: "flood",
            fleets: [
                Fleet::of("ann", 100, 10),
                Fleet { comes_after: late, ..Fleet::of("ben", 2, 10) },
            ],
        },
        Scene {
            name: "short jobs beside long ones",
            short: "long jobs",
            fleets: [
                Fleet::of("ann", 20, 200),
                Fleet { comes_after: late, ..Fleet::of("ben", 4, 5) },
            ],
        },
        Scene {
            name: "a fleet dies",
            short: "workers die",
            fleets: [
                Fleet { dies_after: Some(late), ..Fleet::of("ann", 100, 100) },
                Fleet { comes_after: late, ..Fleet::of("ben", 4, 10) },
            ],
        },
    ]
}

/// What the jobs of each tenant waited for their place in the pool, and since when workers wait now.
#[derive(Default)]
struct Log {
    waits: [RefCell<Vec<f64>>; 2],
    waiting: RefCell<HashMap<(usize, usize), Instant>>,
}

pub async fn run(bench: &Bench) -> Result<()> {
    bench.title("Tenants: who waits for a pool of four");
    let plain = Server::start(With::Nothing).await?;
    let module = Server::start(With::Module).await?;
    for scene in scenes() {
        let mut table = Table::new(&[scene.name, "tenant", "jobs", "wait p50", "p99", "longest"]);
        let mut seen = Vec::new();
        for way in WAYS {
            let server = if way == Way::Leases { &plain } else { &module };
            let span = bench.shortened(SPAN);
            let what = format!("{}: {}", scene.name, way.name());
            let measured = measure(&scene, way, server, span);
            let Some(spreads) = bench.attempt(PART, &what, span, measured).await? else {
                continue;
            };
            for (fleet, wait) in scene.fleets.iter().zip(spreads) {
                table.row([
                    way.name().to_owned(),
                    fleet.tenant.to_owned(),
                    count(wait.count as f64),
                    wait.shown(wait.p50),
                    wait.shown(wait.p99),
                    wait.shown(wait.max),
                ]);
                let figures = json!({
                    "scene": scene.short,
                    "tenant": fleet.tenant,
                    "jobs": wait.count,
                    "wait": { "p50_us": wait.p50 * 1e6, "p99_us": wait.p99 * 1e6, "max_us": wait.max * 1e6 },
                });
                bench.keep(PART, way.name(), &figures);
            }
            seen.push((way, spreads[1]));
        }
        println!("{}", table.text());
        bench.judge(PART, goals(&scene, &seen));
    }
    Ok(())
}

/// The longest wait of the tenant that comes later is no longer than by any other way. Where workers die LIMIT does as
/// well.
fn goals(scene: &Scene, seen: &[(Way, Spread)]) -> Vec<Goal> {
    let ours = seen.iter().find(|(way, _)| *way == Way::Fair);
    let is_rival =
        |way: Way| way == Way::Leases || (way == Way::Limit && scene.short != "workers die");
    let rivals = seen.iter().filter(|(way, _)| is_rival(*way));
    let name = format!("tenants, {}: ben's longest wait", scene.name);
    let goal = |(ours, (way, rival)): (&Spread, &(Way, Spread))| {
        Goal::at_most(name.clone(), ours.max, rival.max, time).of(way.name())
    };
    let pairs = rivals.filter_map(|rival| Some((&ours?.1, rival)));
    pairs.map(goal).collect()
}

async fn measure(scene: &Scene, way: Way, server: &Server, span: Duration) -> Result<[Spread; 2]> {
    server.connect().await?.clear().await?;
    let log = Rc::new(Log::default());
    let (mut tasks, mut dying) = (Vec::new(), Vec::new());
    for (at, fleet) in scene.fleets.into_iter().enumerate() {
        for number in 0..fleet.workers {
            let (address, log) = (server.address(), Rc::clone(&log));
            let task = spawn(work(address, way, fleet, (at, number), log));
            if fleet.dies_after.is_some() { dying.push(task) } else { tasks.push(task) }
        }
    }
    let life = scene.fleets.iter().find_map(|fleet| fleet.dies_after).unwrap_or(span);
    sleep(life).await;
    // Their connections close with them.
    drop(dying);
    if life < span {
        log.waiting.borrow_mut().retain(|&(at, _), _| scene.fleets[at].dies_after.is_none());
        sleep(span.saturating_sub(life)).await;
    }
    for task in &tasks {
        ensure!(!task.is_finished(), "a worker has stopped");
    }
    // A wait that has not ended counts so far.
    for (&(at, _), since) in log.waiting.borrow().iter() {
        log.waits[at].borrow_mut().push(since.elapsed().as_secs_f64());
    }
    drop(tasks);
    Ok([0, 1].map(|at: usize| Spread::of(log.waits[at].take())))
}

async fn work(
    address: SocketAddr,
    way: Way,
    fleet: Fleet,
    worker: (usize, usize),
    log: Rc<Log>,
) -> Result<()> {
    sleep(fleet.comes_after).await;
    let mut connection = Connection::open(address).await?;
    let script = if way == Way::Leases { connection.load(LEASE).await? } else { String::new() };
    for job in 0_u64.. {
        let owner = format!("{}:{}-{job}", fleet.tenant, worker.1);
        let began = Instant::now();
        log.waiting.borrow_mut().insert(worker, began);
        way.acquire(&mut connection, &script, &owner).await?;
        log.waiting.borrow_mut().remove(&worker);
        log.waits[worker.0].borrow_mut().push(began.elapsed().as_secs_f64());
        sleep(fleet.job).await;
        way.release(&mut connection, &owner).await?;
    }
    Ok(())
}
