//! What 10,000 that wait take in the server's memory, however they wait.

use crate::bench::{Bench, Figures};
use crate::connection::Connection;
use crate::limits;
use crate::scale::waiters;
use crate::server::{Server, With};
use crate::stalls::crowd::{TTL, hold, pipeline};
use crate::stalls::seen::field;
use crate::ways::module::Module;
use crate::words::{Table, count, some};
use anyhow::{Result, ensure};
use serde_json::json;
use std::time::Duration;

/// The part of the figures that this is.
pub const PART: &str = "queue: memory";
const WAITERS: usize = 10_000;
/// So long it takes to make as many connections, and twice until they have shed their buffers.
const SPAN: Duration = Duration::from_secs(30);

/// What each of them takes.
#[derive(Debug, Clone)]
pub struct Bytes {
    /// How it waits.
    pub way: &'static str,
    /// How many there were.
    pub waiters: usize,
    /// What it takes because it waits, its owner included.
    pub each: f64,
    /// What its connection takes already while it does nothing.
    pub connection: Option<f64>,
}

/// Places, which differ in what belongs to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Notified,
    OfOwnLock,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Plain, Kind::Notified, Kind::OfOwnLock];

    fn name(self) -> &'static str {
        match self {
            Kind::Plain => "QUEUE",
            Kind::Notified => "QUEUE with NOTIFY",
            Kind::OfOwnLock => "QUEUE, each for a lock of its own",
        }
    }

    /// The end of the name of the lock that this one waits for.
    fn lock(self, waiter: usize) -> usize {
        if self == Kind::OfOwnLock { waiter } else { 0 }
    }

    fn command(self, waiter: usize) -> String {
        let notify = match self {
            Kind::Notified => format!("NOTIFY process-12 {waiter}"),
            _ => String::new(),
        };
        let lock = self.lock(waiter);
        format!(
            "LOCK.ACQUIRE {LOCK}{lock} {} {TTL} QUEUE 60000 {notify}",
            owner(waiter)
        )
    }
}

/// With its number the name of a lock, some 20 bytes long.
const LOCK: &str = "lock:of:warehouse:";

/// As long as a UUID.
fn owner(waiter: usize) -> String {
    format!("0190f3b2-6a55-7c10-8f1e-{waiter:012}")
}

/// Measures them all.
pub async fn run(bench: &mut Bench) -> Result<Vec<Bytes>> {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let what = format!("memory of {}: {}", some(WAITERS, "waiter"), kind.name());
        let measuring = measure(kind, WAITERS);
        all.extend(bench.attempt(PART, &what, SPAN, measuring).await?);
    }
    let blocked = bench.fewer(WAITERS).min(limits::connections()?);
    let what = format!("memory of {}: BLOCK", some(blocked, "waiter"));
    let measuring = waiters::measure::<Module>(blocked);
    if let Some(bytes) = bench.attempt(PART, &what, SPAN, measuring).await? {
        all.push(Bytes {
            way: "BLOCK",
            waiters: blocked,
            each: bytes.more,
            connection: Some(bytes.idle),
        });
    }
    let mut table = Table::new(&[
        "bytes of one that waits",
        "waiters",
        "each",
        "its idle connection",
    ]);
    for bytes in &all {
        table.row(vec![
            bytes.way.to_owned(),
            count(bytes.waiters as f64),
            count(bytes.each),
            bytes.connection.map_or("-".to_owned(), count),
        ]);
        let fields = json!({
            "waiters": bytes.waiters,
            "bytes_each": bytes.each,
            "bytes_of_idle_connection": bytes.connection,
        });
        bench.keep(Figures::new(PART, bytes.way, fields));
    }
    bench.say(&table.text());
    Ok(all)
}

/// Beyond what the holds take that they wait for.
async fn measure(kind: Kind, places: usize) -> Result<Bytes> {
    let server = Server::start(With::Module).await?;
    server.control().await?.set("lock.max-waiters", "0").await?;
    hold(&server, kind.lock(places - 1) + 1, LOCK, "holder").await?;
    let before = memory_without_connections(&server).await?;
    let mut asks = Connection::open(server.address()).await?;
    pipeline(&mut asks, places, |waiter| kind.command(waiter)).await?;
    let kept = field(&mut asks, "lock", "lock_places").await?;
    ensure!(kept == places, "{kept} places were kept of {places}");
    drop(asks);
    let after = memory_without_connections(&server).await?;
    Ok(Bytes {
        way: kind.name(),
        waiters: places,
        each: (after - before) / places as f64,
        connection: None,
    })
}

/// With none but the one that asks, which is as young each time: one that has had replies keeps
/// buffers for a while.
async fn memory_without_connections(server: &Server) -> Result<f64> {
    let mut control = server.control().await?;
    control
        .wait_for("connected_clients", |clients| clients == 1)
        .await?;
    drop(control);
    server.memory().await
}
