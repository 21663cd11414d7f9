//! What locks, keys and waiters cost when there are very many of them.

pub mod mass;
pub mod waiters;

use crate::bench::{Bench, Figures};
use crate::load::{Cycle, Pace, drive};
use crate::server::{Server, With};
use crate::words::{Table, count, time, times};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

const HELD: [usize; 3] = [1, 1_000, 1_000_000];
const SPAN: Duration = Duration::from_secs(1);
/// Making a million of something takes longer than measuring beside it.
const FILLING: Duration = Duration::from_secs(10);
const MANY: usize = 100_000;
const OWNER: &str = "0190f3b2-6a55-7c10-8f1e-4b7a52d9c001";
const TTL: &[u8] = b"3600000";

/// Everything that grows. Gives what the pairs cost.
pub async fn run(bench: &mut Bench) -> Result<Vec<Cost>> {
    let costs = costs(bench).await?;
    waiters::run(bench).await?;
    mass::run(bench).await?;
    Ok(costs)
}

/// What a pair of acquire and release costs beside very much that is there already.
#[derive(Debug, Clone)]
pub struct Cost {
    /// How it acquires and releases.
    pub way: &'static str,
    /// What is there.
    pub beside: &'static str,
    /// How many of it.
    pub there: usize,
    /// How much more of the server's CPU it takes than beside the first.
    pub to_first: f64,
    pace: Pace,
    /// Bytes that each of them takes; of few there is no telling, for tables grow in steps.
    bytes: Option<f64>,
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
async fn costs(bench: &mut Bench) -> Result<Vec<Cost>> {
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
    let mut all = Vec::new();
    for (with, kind, way, beside) in cases {
        let server = Server::start(with).await?;
        let empty = memory(&server).await?;
        let (mut first, mut already) = (None, 0);
        for wanted in HELD {
            let there = match bench.is_quick() {
                true => wanted.min(MANY),
                false => wanted,
            };
            let span = bench.shortened(SPAN);
            let measuring = async {
                fill(&server, kind, already, there).await?;
                let bytes = memory(&server).await? - empty;
                Ok((bytes, drive(&server, vec![pairs(with)], span).await?))
            };
            let what = format!("{way} beside {} {beside}", count(there as f64));
            let measured = bench.attempt("growth", &what, FILLING, measuring).await?;
            let Some((bytes, pace)) = measured else {
                break;
            };
            already = there;
            all.push(Cost {
                way,
                beside,
                there,
                to_first: pace.cpu / first.get_or_insert(pace).cpu,
                pace,
                bytes: (there >= MANY).then(|| bytes / there as f64),
            });
        }
    }
    bench.say(&table(&all));
    for cost in &all {
        bench.keep(figures(cost));
    }
    Ok(all)
}

fn table(costs: &[Cost]) -> String {
    let mut table = Table::new(&[
        "a pair beside",
        "pairs/s",
        "server CPU a pair",
        "CPU, first = 1",
        "bytes each",
    ]);
    for cost in costs {
        let there = count(cost.there as f64);
        table.row(vec![
            format!("{}: {there} {}", cost.way, cost.beside),
            count(cost.pace.rate / 2.0),
            time(cost.pace.cpu * 2.0),
            times(cost.to_first),
            cost.bytes.map_or("-".to_owned(), count),
        ]);
    }
    table.text()
}

fn figures(cost: &Cost) -> Figures {
    let fields = json!({
        "beside": cost.beside,
        "there": cost.there,
        "pairs_per_second": cost.pace.rate / 2.0,
        "server_cpu_us_per_pair": cost.pace.cpu * 2e6,
        "cpu_to_first": cost.to_first,
        "bytes_each": cost.bytes,
    });
    Figures::new("growth", cost.way, fields)
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

/// The bytes that a server uses.
pub async fn memory(server: &Server) -> Result<f64> {
    let info = server.control().await?.info().await?;
    Ok(info.number("used_memory")? as f64)
}
