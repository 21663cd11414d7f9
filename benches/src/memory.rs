//! What 10,000 that wait take in the server's memory, however they wait.

use crate::bench::{Bench, Goal};
use crate::connection::Connection;
use crate::limits;
use crate::runtime::{sleep, spawn};
use crate::server::{Server, With};
use crate::stalls::crowd::{TTL, hold, pipeline};
use crate::ways::module::Module;
use crate::ways::{Connected, Venue};
use crate::words::{Table, count, some};
use anyhow::{Result, ensure};
use std::time::Duration;

const PART: &str = "memory";
const WAITERS: usize = 10_000;
/// So long it takes to make as many connections, and twice until they have shed their buffers.
const SPAN: Duration = Duration::from_secs(30);
/// So long after its last command a connection has shed the buffers that it no longer needs: some 35 KB, in which a
/// waiter would be lost.
const SETTLE: Duration = Duration::from_secs(8);
/// With its number the name of a lock, some 20 bytes long.
const LOCK: &str = "lock:of:warehouse:";

pub async fn run(bench: &Bench) -> Result<()> {
    bench.title("Memory: places without a connection, and blocked clients");
    let columns = ["bytes of one that waits", "waiters", "each", "its idle connection"];
    let mut table = Table::new(&columns);
    for (way, own_locks, notify) in [
        ("QUEUE", false, ""),
        ("QUEUE with NOTIFY", false, "NOTIFY process-12 "),
        ("QUEUE, each for a lock of its own", true, ""),
    ] {
        let what = format!("memory of {}: {way}", some(WAITERS, "waiter"));
        let lock = |waiter| if own_locks { waiter } else { 0 };
        let ask = |waiter: usize| {
            let owner = format!("0190f3b2-6a55-7c10-8f1e-{waiter:012}");
            let notify =
                if notify.is_empty() { String::new() } else { format!("{notify}{waiter}") };
            format!("LOCK.ACQUIRE {LOCK}{} {owner} {TTL} QUEUE 60000 {notify}", lock(waiter))
        };
        let measuring = places(lock(WAITERS - 1) + 1, ask);
        if let Some(each) = bench.attempt(PART, &what, SPAN, measuring).await? {
            table.row([way, &count(WAITERS as f64), &count(each), "-"]);
            if way == "QUEUE" {
                let name = format!("bytes of a place, {} of them", count(WAITERS as f64));
                bench.judge(PART, [Goal::at_most(name, each, 300.0, count)]);
            }
        }
    }
    let waiters = bench.fewer(WAITERS).min(limits::connections()?);
    let what = format!("memory of {}: BLOCK", some(waiters, "waiter"));
    let measuring = blocked::<Module>(waiters);
    if let Some((idle, more)) = bench.attempt(PART, &what, SPAN, measuring).await? {
        table.row(["BLOCK", &count(waiters as f64), &count(more), &count(idle)]);
    }
    println!("{}", table.text());
    Ok(())
}

/// Bytes of a place, beyond what the holds take that it waits for.
async fn places(locks: usize, ask: impl Fn(usize) -> String) -> Result<f64> {
    let server = Server::start(With::Module).await?;
    server.connect().await?.set("lock.max-waiters", "0").await?;
    hold(&server, locks, LOCK, "holder").await?;
    let before = memory_without_connections(&server).await?;
    let mut asks = Connection::open(server.address()).await?;
    pipeline(&mut asks, WAITERS, ask).await?;
    let kept = asks.field("lock", "lock_places").await?;
    ensure!(kept == WAITERS, "{kept} places were kept of {WAITERS}");
    drop(asks);
    let after = memory_without_connections(&server).await?;
    Ok((after - before) / WAITERS as f64)
}

/// With none but the one that asks, which is as young each time: one that has had replies keeps buffers for a while.
async fn memory_without_connections(server: &Server) -> Result<f64> {
    let mut control = server.connect().await?;
    control.wait_for("connected_clients", |clients| clients == 1).await?;
    drop(control);
    server.memory().await
}

/// Bytes of a connection while it does nothing, and by how much more when it waits; of so many that wait for one lock.
async fn blocked<W: Connected>(waiters: usize) -> Result<(f64, f64)> {
    let server = Server::start(W::WITH).await?;
    let mut control = server.connect().await?;
    control.lift_limits(W::WITH).await?;
    let mut holder = W::connect(Venue::new(server.address(), "lock", 0)).await?;
    holder.acquire().await?;
    let empty = server.memory().await?;
    let mut ways = Vec::new();
    for client in 1..=waiters {
        let mut way = W::connect(Venue::new(server.address(), "lock", client)).await?;
        way.connection().call("PING").await?;
        ways.push(way);
    }
    sleep(SETTLE).await;
    let idle = server.memory().await?;
    let waiting = ways.into_iter();
    let _tasks: Vec<_> = waiting.map(|mut way| spawn(async move { way.acquire().await })).collect();
    let blocked = waiters;
    control.wait_for("blocked_clients", |clients| clients == blocked).await?;
    sleep(SETTLE).await;
    let waiting = server.memory().await?;
    let each = |bytes: f64| bytes / waiters as f64;
    Ok((each(idle - empty), each(waiting - idle)))
}
