//! What a pair, a hand-over and an expiry cost when there are very many, and what each takes.
//!
//! Costs are seconds of the server's CPU: those of a process are hardly changed by what else the
//! machine does, where latencies are.

mod cluster;
mod expiring;
mod held;
mod shard;
pub mod waiters;
mod waiting;

use crate::bench::{Bench, Figures};
use crate::stats::Spread;
use crate::words::{Table, count, time};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

/// The part of the figures that this is.
pub const PART: &str = "scale";
/// Acquire and release, with nobody in the way.
pub const PAIR: &str = "pair";
/// From one holder to the next, who has waited; and the last one joins the queue again.
pub const HANDOVER: &str = "hand-over";
/// A hold ends, and the next in the queue is granted the lock.
pub const EXPIRY: &str = "expiry";
/// What a pair is compared with.
pub const PLAIN: &str = "SET NX PX, DEL";

/// Making a million of something takes longer than measuring beside it.
const SPAN: Duration = Duration::from_secs(40);
const OWNER: &str = "0190f3b2-6a55-7c10-8f1e-4b7a52d9c001";
const TTL: &str = "3600000";

/// What one thing costs beside so many.
#[derive(Debug, Clone)]
pub struct Row {
    /// What it is.
    pub what: &'static str,
    /// How it is done.
    pub way: &'static str,
    /// Beside what.
    pub beside: &'static str,
    /// How many of it.
    pub there: usize,
    /// How many masters are in the cluster; none if it is no cluster.
    pub masters: Option<usize>,
    /// Seconds of the server's CPU.
    pub cpu: f64,
    /// From the request to the reply, one at a time.
    pub latency: Option<Spread>,
    /// The memory that each of those takes. Of few there is no telling: tables grow in steps.
    pub bytes: Option<f64>,
}

impl Row {
    fn new(what: &'static str, way: &'static str, beside: &'static str, there: usize) -> Row {
        Row {
            what,
            way,
            beside,
            there,
            masters: None,
            cpu: 0.0,
            latency: None,
            bytes: None,
        }
    }

    fn figures(&self) -> Figures {
        let fields = json!({
            "what": self.what,
            "beside": self.beside,
            "there": self.there,
            "masters": self.masters,
            "server_cpu_us": self.cpu * 1e6,
            "latency": self.latency.map(Spread::to_json),
            "bytes_each": self.bytes,
        });
        Figures::new(PART, self.way, fields)
    }
}

/// Everything that grows.
pub async fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    let rows = held::run(bench).await?;
    keep(bench, rows, &mut all);
    let rows = waiting::run(bench).await?;
    keep(bench, rows, &mut all);
    let rows = expiring::run(bench).await?;
    keep(bench, rows, &mut all);
    let rows = cluster::run(bench).await?;
    keep(bench, rows, &mut all);
    Ok(all)
}

/// Each part at once: what comes later may fail.
fn keep(bench: &mut Bench, rows: Vec<Row>, all: &mut Vec<Row>) {
    bench.say(&table(&rows));
    for row in &rows {
        bench.keep(row.figures());
    }
    all.extend(rows);
}

/// As many as wanted, or few for a quick look.
fn sizes<const N: usize>(bench: &Bench, wanted: [usize; N]) -> Vec<usize> {
    let most = if bench.is_quick() { 20_000 } else { usize::MAX };
    crate::limits::steps(&wanted, most)
}

fn table(rows: &[Row]) -> String {
    let mut table = Table::new(&["", "masters", "server CPU", "p50", "p99", "bytes each"]);
    for row in rows {
        let latency = |of: fn(&Spread) -> f64| {
            let spread = row.latency.as_ref();
            spread.map_or("-".to_owned(), |spread| time(of(spread)))
        };
        let there = count(row.there as f64);
        table.row(vec![
            format!("{}, {}, {there} {}", row.what, row.way, row.beside),
            row.masters.map_or("-".to_owned(), |all| all.to_string()),
            time(row.cpu),
            latency(|spread| spread.p50),
            latency(|spread| spread.p99),
            row.bytes.map_or("-".to_owned(), count),
        ]);
    }
    table.text()
}
