//! What a pair, a hand-over and an expiry cost when there are very many, and what each takes.
//!
//! Costs are seconds of the server's CPU: those of a process are hardly changed by what else the
//! machine does, where latencies are.

use crate::bench::{Bench, Goal};
use crate::connection::Connection;
use crate::handover::no_growth_beside;
use crate::load::{Cycle, drive};
use crate::runtime::sleep;
use crate::server::{Idle, Server, With};
use crate::stalls::crowd::pipeline;
use crate::stats::Spread;
use crate::ways::Way;
use crate::ways::module::Module;
use crate::words::{Table, count, time, times};
use anyhow::{Result, ensure};
use serde_json::json;
use std::time::{Duration, Instant};

const PART: &str = "scale";
/// Acquire and release of a lock that no other client wants.
const PAIR: &str = "pair";
/// From one holder to the next, which has waited; and the last one joins the queue again.
const HANDOVER: &str = "hand-over";
/// A hold ends, and the next in the queue is granted the lock.
const EXPIRY: &str = "expiry";
const PLAIN: &str = "SET NX PX, DEL";

/// Making a million of something takes longer than measuring beside it.
const SPAN: Duration = Duration::from_secs(40);
const OWNER: &str = "0190f3b2-6a55-7c10-8f1e-4b7a52d9c001";
const TTL: &str = "3600000";

/// What one thing costs beside so many.
#[derive(Debug, Clone)]
struct Row {
    what: &'static str,
    way: &'static str,
    there: usize,
    beside: &'static str,
    /// Seconds of the server's CPU.
    cpu: f64,
    /// From the request to the reply, one at a time.
    latency: Option<Spread>,
    /// The memory that each of those takes. Of few there is no telling: tables grow in steps.
    bytes: Option<f64>,
}

pub async fn run(bench: &Bench) -> Result<()> {
    bench.title("Scale: up to a million locks and places");
    let pairs = pairs(bench).await?;
    bench.judge(PART, goal(&pairs));
    show(bench, &pairs);
    show(bench, &hand_overs(bench).await?);
    show(bench, &expiries(bench).await?);
    Ok(())
}

/// Each part at once: what comes later may fail.
fn show(bench: &Bench, rows: &[Row]) {
    let mut table = Table::new(&["", "server CPU", "p50", "p99", "bytes each"]);
    for row in rows {
        let what = format!("{}, {}, {} {}", row.what, row.way, count(row.there as f64), row.beside);
        let shown = |seconds: Option<f64>| seconds.map_or("-".to_owned(), time);
        table.row([
            what,
            time(row.cpu),
            shown(row.latency.map(|spread| spread.p50)),
            shown(row.latency.map(|spread| spread.p99)),
            row.bytes.map_or("-".to_owned(), count),
        ]);
        let us = |spread: Spread| json!({ "p50_us": spread.p50 * 1e6, "p99_us": spread.p99 * 1e6 });
        let figures = json!({
            "what": row.what,
            "there": row.there,
            "beside": row.beside,
            "server_cpu_us": row.cpu * 1e6,
            "latency": row.latency.map(us),
            "bytes_each": row.bytes,
        });
        bench.keep(PART, row.way, &figures);
    }
    println!("{}", table.text());
}

/// As many as wanted, or few for a quick look.
fn sizes(bench: &Bench, wanted: &[usize]) -> Vec<usize> {
    let most = if bench.is_quick { 20_000 } else { usize::MAX };
    let mut sizes: Vec<usize> = wanted.iter().map(|&size| size.min(most)).collect();
    sizes.dedup();
    sizes
}

/// A pair beside very much else, to one beside hardly anything.
fn goal(rows: &[Row]) -> Option<Goal> {
    let growth = |way: &str| {
        let those = rows.iter().filter(|row| row.way == way && row.beside != "other keys");
        let least = those.clone().min_by_key(|row| row.there)?;
        let most = those.max_by_key(|row| row.there)?;
        Some((most.there, most.cpu / least.cpu))
    };
    let ((_, plain), (there, ours)) = (growth(PLAIN)?, growth(Module::NAME)?);
    let name = format!("CPU of a pair, growth to {} held locks", count(there as f64));
    let goal = Goal::at_most(name, ours, no_growth_beside(plain), times);
    Some(goal.of("SET NX PX, DEL's, and 20 %"))
}

fn names(prefix: &str, from: usize, number: usize) -> Vec<String> {
    (from..from + number).map(|which| format!("{prefix}{which}")).collect()
}

/// One command for each name, fifty in flight.
async fn for_all(
    connection: &mut Connection,
    names: &[String],
    command: impl Fn(&str) -> String,
) -> Result<()> {
    let of = |which: usize| names.get(which).map_or(String::new(), |name| command(name));
    pipeline(connection, names.len(), of).await
}

async fn start(with: With) -> Result<Server> {
    let server = Server::start(with).await?;
    server.connect().await?.lift_limits(with).await?;
    Ok(server)
}

async fn bytes_each(server: &Server, before: f64, number: usize) -> Result<Option<f64>> {
    let now = server.memory().await?;
    Ok((number >= 10_000).then(|| (now - before) / number as f64))
}

/// Pairs of LOCK beside held locks and beside other keys, and the server's own commands beside keys.
async fn pairs(bench: &Bench) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for (with, fill, way, beside) in [
        (With::Nothing, "SET @ OWNER PX TTL", PLAIN, "keys that expire"),
        (With::Module, "LOCK.ACQUIRE @ OWNER TTL", Module::NAME, "held locks"),
        (With::Module, "SET @ OWNER", Module::NAME, "other keys"),
    ] {
        let server = start(with).await?;
        let empty = server.memory().await?;
        let mut already = 0;
        for there in sizes(bench, &[10, 1_000, 100_000, 1_000_000]) {
            let what = format!("{way}: a pair beside {} {beside}", count(there as f64));
            let measuring = async {
                let mut connection = Connection::open(server.address()).await?;
                let names = names("lock:", already, there - already);
                let words = fill.replace("OWNER", OWNER).replace("TTL", TTL);
                for_all(&mut connection, &names, |name| words.replace('@', name)).await?;
                drop(connection);
                let bytes = bytes_each(&server, empty, there).await?;
                let cpu = pair_cpu(&server, with, bench.shortened(Duration::from_secs(1))).await?;
                let latency = Some(one_by_one(&server, with).await?);
                Ok(Row { what: PAIR, way, there, beside, cpu, latency, bytes })
            };
            let Some(row) = bench.attempt(PART, &what, SPAN, measuring).await? else {
                break;
            };
            already = there;
            all.push(row);
        }
    }
    Ok(all)
}

fn probes() -> Vec<String> {
    names("probe:", 0, 1_000)
}

fn pair(with: With, key: &str) -> [String; 2] {
    match with {
        With::Module => {
            [format!("LOCK.ACQUIRE {key} {OWNER} {TTL}"), format!("LOCK.RELEASE {key} {OWNER}")]
        }
        With::Nothing => [format!("SET {key} {OWNER} NX PX {TTL}"), format!("DEL {key}")],
    }
}

/// Pairs on a thousand keys in turn, 50 in flight.
async fn pair_cpu(server: &Server, with: With, span: Duration) -> Result<f64> {
    let mut cycle = Cycle::default();
    for some in probes().chunks(50) {
        let pairs = some.iter().flat_map(|key| pair(with, key));
        cycle.send(&pairs.collect::<Vec<_>>());
    }
    Ok(drive(server, vec![cycle], span).await?.cpu * 2.0)
}

/// As a client sees it that waits for each reply.
async fn one_by_one(server: &Server, with: With) -> Result<Spread> {
    let mut connection = Connection::open(server.address()).await?;
    let mut times = Vec::new();
    for key in probes() {
        let began = Instant::now();
        for command in pair(with, &key) {
            connection.call(&command).await?;
        }
        times.push(began.elapsed().as_secs_f64());
    }
    Ok(Spread::of(times))
}

/// To places, which need no connection.
async fn hand_overs(bench: &Bench) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for places in sizes(bench, &[1, 1_000, 100_000, 1_000_000]) {
        let what = format!("a hand-over with {} places", count(places as f64));
        let measuring = with_places(places, bench.fewer(20_000));
        all.extend(bench.attempt(PART, &what, SPAN, measuring).await?);
    }
    Ok(all)
}

/// With so many places in the queue of one lock.
async fn with_places(places: usize, handovers: usize) -> Result<Row> {
    let owner = |place: usize| format!("0190f3b2-6a55-7c10-8f1e-{place:012}");
    let ask = |place| format!("LOCK.ACQUIRE queue {} {TTL} QUEUE {TTL}", owner(place));
    let server = start(With::Module).await?;
    let mut connection = Connection::open(server.address()).await?;
    let before = server.memory().await?;
    // The first of them holds the lock.
    let owners = places + 1;
    pipeline(&mut connection, owners, ask).await?;
    drop(connection);
    let bytes = bytes_each(&server, before, places).await?;

    // Each in turn releases it, the next one claims it, and the first joins again.
    let turn = |command: usize| {
        let holder = command / 3 % owners;
        match command % 3 {
            0 => format!("LOCK.RELEASE queue {}", owner(holder)),
            1 => ask((holder + 1) % owners),
            _ => ask(holder),
        }
    };
    let mut connection = Connection::open(server.address()).await?;
    let idle = Idle::of(&server).await?;
    pipeline(&mut connection, handovers * 3, turn).await?;
    let cpu = idle.used_beyond(&server)? / handovers as f64;

    let mut times = Vec::new();
    for round in handovers..handovers + 500 {
        connection.push(&turn(round * 3));
        connection.push(&turn(round * 3 + 1));
        let began = Instant::now();
        let fence = connection.last_of(2).await?.number()?;
        times.push(began.elapsed().as_secs_f64());
        ensure!(fence > 0, "the next in turn got {fence}");
        connection.push(&turn(round * 3 + 2));
        connection.last_of(1).await?;
    }
    let latency = Some(Spread::of(times));
    Ok(Row {
        what: HANDOVER,
        way: "QUEUE",
        there: places,
        beside: "in the queue",
        cpu,
        latency,
        bytes,
    })
}

/// Holds that end at the same moment, and for each a place in its queue, which needs no connection.
async fn expiries(bench: &Bench) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for there in sizes(bench, &[10, 1_000, 100_000]) {
        let what = format!("{} holds expire at once", count(there as f64));
        let measuring = async {
            let server = start(With::Module).await?;
            let idle = Idle::of(&server).await?;
            // Few cost so little that they have to expire often.
            let rounds = 1_000_usize.div_ceil(there);
            let mut cpu = 0.0;
            for round in 0..rounds {
                cpu += expire(&server, there, round, &idle).await?;
            }
            let cpu = cpu / (rounds * there) as f64;
            Ok(Row {
                what: EXPIRY,
                way: Module::NAME,
                there,
                beside: "at once",
                cpu,
                latency: None,
                bytes: None,
            })
        };
        all.extend(bench.attempt(PART, &what, SPAN, measuring).await?);
    }
    Ok(all)
}

/// Seconds of CPU, from before the end of all to the grant of the last.
async fn expire(server: &Server, there: usize, round: usize, idle: &Idle) -> Result<f64> {
    /// Between two looks whether all are granted. A look costs some microseconds.
    const LOOK: Duration = Duration::from_millis(20);
    /// To renew a hold takes at most as long.
    const RENEW: Duration = Duration::from_micros(40);
    let names = names("end:", round * there, there);
    let mut connection = Connection::open(server.address()).await?;
    let hold = |name: &str| format!("LOCK.ACQUIRE {name} {OWNER} {TTL}");
    for_all(&mut connection, &names, hold).await?;
    let wait = |name: &str| format!("LOCK.ACQUIRE {name} waiter:{name} {TTL} QUEUE {TTL}");
    for_all(&mut connection, &names, wait).await?;
    let grants = "lock_acquired_after_wait_total";
    let already = connection.field("lock", grants).await?;
    let end = Instant::now() + RENEW * u32::try_from(there)? + LOOK;
    let renew = |name: &str| {
        let left = end.saturating_duration_since(Instant::now());
        format!("LOCK.RENEW {name} {OWNER} {}", left.as_millis().max(1))
    };
    for_all(&mut connection, &names, renew).await?;
    let mut idle = idle.clone();
    idle.begin(server)?;
    ensure!(Instant::now() < end, "the holds ended before they were all renewed");
    sleep(end.saturating_duration_since(Instant::now())).await;
    loop {
        sleep(LOOK).await;
        let used = idle.used_beyond(server)?;
        if connection.field("lock", grants).await? >= already + there {
            return Ok(used);
        }
        ensure!(end.elapsed() < Duration::from_secs(20), "not all were granted");
    }
}
