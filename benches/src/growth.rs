//! What locks, keys and waiters cost when there are very many of them.

use crate::answer::Answer;
use crate::bench::{Bench, Figures};
use crate::connection::Connection;
use crate::limits;
use crate::load::{Cycle, Pace, drive};
use crate::runtime::{sleep, spawn};
use crate::server::{Server, With};
use crate::ways::module::Module;
use crate::ways::token_list::TokenList;
use crate::ways::{Venue, Way};
use crate::words::{Table, count, time, times};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const HELD: [usize; 3] = [1, 1_000, 1_000_000];
const SPAN: Duration = Duration::from_secs(1);
const WAITERS: usize = 2_000;
const EXPIRING: usize = 100_000;
const OWNER: &str = "0190f3b2-6a55-7c10-8f1e-4b7a52d9c001";
const TTL: &[u8] = b"3600000";

/// Everything that grows.
pub async fn run(bench: &mut Bench) -> Result<()> {
    costs(bench).await?;
    waiters(bench).await?;
    mass_expiry(bench).await
}

/// What one key is made by.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Lock,
    PlainWithEnd,
    Plain,
}

impl Kind {
    fn words(self, key: &[u8]) -> Vec<&[u8]> {
        match self {
            Kind::Lock => vec![b"LOCK.ACQUIRE", key, OWNER.as_bytes(), TTL],
            Kind::PlainWithEnd => vec![b"SET", key, OWNER.as_bytes(), b"PX", TTL],
            Kind::Plain => vec![b"SET", key, OWNER.as_bytes()],
        }
    }
}

/// Pairs of acquire and release, beside more and more that is there already.
async fn costs(bench: &mut Bench) -> Result<()> {
    let mut table = Table::new(&[
        "a pair beside",
        "pairs/s",
        "server CPU a pair",
        "CPU, first = 1",
        "bytes each",
    ]);
    let cases = [
        (
            With::Nothing,
            Kind::PlainWithEnd,
            "SET NX PX, DEL",
            "keys with an end",
        ),
        (With::Module, Kind::Lock, "LOCK", "held locks"),
        (With::Module, Kind::Plain, "LOCK", "keys that are no locks"),
    ];
    for (with, kind, way, beside) in cases {
        let server = Server::start(with).await?;
        let mut first = None;
        let mut there = 0;
        let empty = memory(&server).await?;
        for held in HELD {
            let held = if bench.is_quick() {
                held.min(100_000)
            } else {
                held
            };
            bench.progress(&format!("{way} beside {} {beside}", count(held as f64)));
            fill(&server, kind, there, held).await?;
            there = held;
            let bytes = (memory(&server).await? - empty) / held as f64;
            let pace = drive(&server, vec![pairs(with)], bench.shortened(SPAN)).await?;
            let ratio = pace.cpu / first.get_or_insert(pace).cpu;
            table.row(vec![
                format!("{way}: {} {beside}", count(held as f64)),
                count(pace.rate / 2.0),
                time(pace.cpu * 2.0),
                times(ratio),
                if held > 1 {
                    count(bytes)
                } else {
                    "-".to_owned()
                },
            ]);
            bench.keep(cost_figures(way, beside, held, pace, ratio, bytes));
        }
    }
    bench.say(&table.text());
    Ok(())
}

fn cost_figures(
    way: &str,
    beside: &str,
    held: usize,
    pace: Pace,
    ratio: f64,
    bytes: f64,
) -> Figures {
    let fields = json!({
        "beside": beside,
        "there": held,
        "pairs_per_second": pace.rate / 2.0,
        "server_cpu_us_per_pair": pace.cpu * 2e6,
        "cpu_to_first": ratio,
        "bytes_each": bytes,
    });
    Figures::new("growth", way, fields)
}

/// Pairs on a thousand keys in turn, 50 in flight.
fn pairs(with: With) -> Cycle {
    let mut cycle = Cycle::default();
    let keys: Vec<String> = (0..1000).map(|key| format!("probe:{key}")).collect();
    for some in keys.chunks(50) {
        let commands: Vec<Vec<&[u8]>> = some
            .iter()
            .flat_map(|key| pair(with, key.as_bytes()))
            .collect();
        cycle.send(&commands, 1);
    }
    cycle
}

fn pair(with: With, key: &[u8]) -> [Vec<&[u8]>; 2] {
    let owner = OWNER.as_bytes();
    match with {
        With::Module => [
            vec![b"LOCK.ACQUIRE", key, owner, TTL],
            vec![b"LOCK.RELEASE", key, owner],
        ],
        With::Nothing => [
            vec![b"SET", key, owner, b"NX", b"PX", TTL],
            vec![b"DEL", key],
        ],
    }
}

async fn fill(server: &Server, kind: Kind, from: usize, to: usize) -> Result<()> {
    let connection = &mut server.control().await?.connection;
    let numbers: Vec<usize> = (from..to).collect();
    for some in numbers.chunks(500) {
        for number in some {
            let key = format!("lock:{number}");
            connection.push(&kind.words(key.as_bytes()));
        }
        connection.last_of(some.len()).await?;
    }
    Ok(())
}

async fn memory(server: &Server) -> Result<f64> {
    let info = server.control().await?.info().await?;
    Ok(info.number("used_memory")? as f64)
}

/// Bytes that a connection takes more when it waits.
async fn waiters(bench: &mut Bench) -> Result<()> {
    bench.progress("memory of waiters");
    let waiters = WAITERS.min(limits::connections()?);
    let mut table = Table::new(&["memory of a connection", "idle", "more when it waits"]);
    memory_of_waiters::<TokenList>(bench, &mut table, With::Nothing, waiters).await?;
    memory_of_waiters::<Module>(bench, &mut table, With::Module, waiters).await?;
    bench.say(&table.text());
    Ok(())
}

async fn memory_of_waiters<W: Way>(
    bench: &mut Bench,
    table: &mut Table,
    with: With,
    waiters: usize,
) -> Result<()> {
    let server = Server::start(with).await?;
    let mut holder = W::connect(Venue::new(server.address(), "lock", 0)).await?;
    holder.acquire().await?;
    let empty = memory(&server).await?;
    let mut ways = Vec::new();
    for client in 1..=waiters {
        ways.push(W::connect(Venue::new(server.address(), "lock", client)).await?);
    }
    let idle = memory(&server).await?;
    let tasks: Vec<_> = ways
        .into_iter()
        .map(|mut way| spawn(async move { way.acquire().await }))
        .collect();
    let blocked = u64::try_from(waiters)?;
    let mut control = server.control().await?;
    control
        .wait_for("blocked_clients", |clients| clients == blocked)
        .await?;
    let waiting = memory(&server).await?;
    for task in tasks {
        task.cancel().await;
    }
    let each = |bytes: f64| bytes / waiters as f64;
    let (idle_bytes, more) = (each(idle - empty), each(waiting - idle));
    table.row(vec![W::NAME.to_owned(), count(idle_bytes), count(more)]);
    let fields = json!({
        "waiters": waiters,
        "bytes_of_idle_connection": idle_bytes,
        "bytes_more_when_waiting": more,
    });
    bench.keep(Figures::new("memory", W::NAME, fields));
    Ok(())
}

/// Very many locks end in the same instant, and somebody waits for each of them.
///
/// As many as there may be connections wait for one lock each; the rest wait for a thousand at
/// once, by MACQUIRE.
async fn mass_expiry(bench: &mut Bench) -> Result<()> {
    bench.progress("very many locks end at once");
    limits::raise_open_files(EXPIRING as u64 + 1000)?;
    // A quick look has a tenth of them.
    let locks = if bench.is_quick() {
        EXPIRING / 10
    } else {
        EXPIRING
    };
    let many = locks.div_ceil(1000);
    // One address of the loopback offers some 28,000 ports.
    let singles = locks.min(limits::connections()?.min(25_000) - many - 100);
    let server = Server::start_as(With::Module, "").await?;
    let mut control = server.control().await?;
    for limit in ["lock.max-waiters", "lock.max-waiters-total"] {
        control.set(limit, "0").await?;
    }
    fill(&server, Kind::Lock, 0, locks).await?;

    let granted = Rc::new(Cell::new(0));
    let last = Rc::new(Cell::new(None));
    let mut tasks = Vec::new();
    let mut wait = |connection: Connection, of: usize| {
        let (granted, last) = (Rc::clone(&granted), Rc::clone(&last));
        tasks.push(spawn(expect_grant(connection, granted, last, of)));
    };
    for number in 0..singles {
        let mut connection = Connection::open(server.address()).await?;
        let (key, owner) = (format!("lock:{number}"), format!("waiter:{number}"));
        let words: [&[u8]; 6] = [
            b"LOCK.ACQUIRE",
            key.as_bytes(),
            owner.as_bytes(),
            TTL,
            b"BLOCK",
            b"0",
        ];
        connection.push(&words);
        connection.send().await?;
        wait(connection, 1);
    }
    let rest: Vec<String> = (singles..locks)
        .map(|number| format!("lock:{number}"))
        .collect();
    for (number, some) in rest.chunks(1000).enumerate() {
        let mut connection = Connection::open(server.address()).await?;
        let (size, owner) = (some.len().to_string(), format!("waiter of many:{number}"));
        let mut words: Vec<&[u8]> = vec![b"LOCK.MACQUIRE", size.as_bytes()];
        words.extend(some.iter().map(String::as_bytes));
        words.extend([owner.as_bytes(), TTL, b"BLOCK".as_slice(), b"0"]);
        connection.push(&words);
        connection.send().await?;
        wait(connection, some.len());
    }
    let waiting = u64::try_from(tasks.len())?;
    control
        .wait_for("blocked_clients", |clients| clients == waiting)
        .await?;

    let end = end_together(&server, locks).await?;
    let pinger = Pinger::start(server.address())?;
    while granted.get() < locks {
        ensure!(
            end.elapsed() < Duration::from_secs(60),
            "of {locks} locks {} were granted",
            granted.get()
        );
        sleep(Duration::from_millis(20)).await;
    }
    let stall = pinger.stop()?;
    for task in tasks {
        task.await?;
    }
    let took = last.get().map_or(Duration::ZERO, |last: Instant| {
        last.saturating_duration_since(end)
    });

    let mut table = Table::new(&[
        "locks that end at once",
        "waiters of one",
        "waiters of 1,000",
        "all granted after",
        "longest stall",
    ]);
    table.row(vec![
        count(locks as f64),
        count(singles as f64),
        count(waiting as f64 - singles as f64),
        time(took.as_secs_f64()),
        time(stall.as_secs_f64()),
    ]);
    bench.say(&table.text());
    let fields = json!({
        "locks": locks,
        "waiters_of_one": singles,
        "waiters_of_many": waiting as usize - singles,
        "all_granted_after_ms": took.as_secs_f64() * 1e3,
        "longest_stall_ms": stall.as_secs_f64() * 1e3,
    });
    bench.keep(Figures::new("mass expiry", "LOCK", fields));
    Ok(())
}

async fn expect_grant(
    mut connection: Connection,
    granted: Rc<Cell<usize>>,
    last: Rc<Cell<Option<Instant>>>,
    of: usize,
) -> Result<()> {
    let fence = connection.answer().await?.number()?;
    ensure!(fence > 0, "a waiter was answered {fence}");
    last.set(Some(Instant::now()));
    granted.set(granted.get() + of);
    Ok(())
}

/// Renews all holds so that they end together, and gives that moment.
async fn end_together(server: &Server, locks: usize) -> Result<Instant> {
    let connection = &mut server.control().await?.connection;
    let end = Instant::now()
        + Duration::from_millis(500)
        + Duration::from_micros(20) * u32::try_from(locks)?;
    let numbers: Vec<usize> = (0..locks).collect();
    for some in numbers.chunks(500) {
        let ttl = end
            .saturating_duration_since(Instant::now())
            .as_millis()
            .to_string();
        for number in some {
            let key = format!("lock:{number}");
            connection.push(&[
                b"LOCK.RENEW",
                key.as_bytes(),
                OWNER.as_bytes(),
                ttl.as_bytes(),
            ]);
        }
        let renewed = connection.last_of(some.len()).await?;
        ensure!(
            renewed == Answer::Number(1),
            "the locks ended before they were all renewed"
        );
    }
    Ok(end)
}

/// Asks the server for a sign of life each millisecond, from a thread that does nothing else.
struct Pinger {
    thread: thread::JoinHandle<Result<Duration>>,
    over: Arc<AtomicBool>,
}

impl Pinger {
    fn start(address: SocketAddr) -> Result<Pinger> {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let thread = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            let mut answer = [0; 7];
            while !seen.load(Ordering::Relaxed) {
                let asked = Instant::now();
                stream.write_all(b"PING\r\n")?;
                stream.read_exact(&mut answer)?;
                longest = longest.max(asked.elapsed());
                thread::sleep(Duration::from_millis(1));
            }
            Ok(longest)
        });
        Ok(Pinger { thread, over })
    }

    fn stop(self) -> Result<Duration> {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.join();
        ended.ok().context("the thread that pings has panicked")?
    }
}
