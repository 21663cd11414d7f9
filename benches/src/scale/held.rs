//! Pairs of acquire and release, beside more and more that is there already.

use super::shard::Shard;
use super::{OWNER, PAIR, PART, PLAIN, Row, SPAN, TTL, sizes};
use crate::bench::Bench;
use crate::connection::Connection;
use crate::load::{Cycle, Pace, drive};
use crate::server::With;
use crate::stats::Spread;
use crate::ways::Way;
use crate::ways::module::Module;
use crate::words::count;
use anyhow::Result;
use std::time::{Duration, Instant};

const THERE: [usize; 4] = [10, 1_000, 100_000, 1_000_000];
const MEASURED: Duration = Duration::from_secs(1);
/// Pairs in flight.
const DEPTH: usize = 50;

/// What is there.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Lock,
    PlainWithEnd,
    Plain,
}

impl Kind {
    fn words(self, key: &str) -> String {
        match self {
            Kind::Lock => format!("LOCK.ACQUIRE {key} {OWNER} {TTL}"),
            Kind::PlainWithEnd => format!("SET {key} {OWNER} PX {TTL}"),
            Kind::Plain => format!("SET {key} {OWNER}"),
        }
    }
}

/// LOCK beside held locks and beside other keys, and the server's own commands beside keys.
pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let cases = [
        (With::Nothing, Kind::PlainWithEnd, PLAIN, "keys that expire"),
        (With::Module, Kind::Lock, Module::NAME, "held locks"),
        (With::Module, Kind::Plain, Module::NAME, "other keys"),
    ];
    let mut all = Vec::new();
    for (with, kind, way, beside) in cases {
        let shard = Shard::alone(with).await?;
        let mut already = 0;
        for there in sizes(bench, THERE) {
            let what = format!("{way}: a pair beside {} {beside}", count(there as f64));
            let measuring = async {
                let names = shard.names("lock:", already, there - already);
                shard.all(&names, |name| kind.words(name)).await?;
                let bytes = shard.bytes_each(shard.empty, there).await?;
                let cpu = pace(&shard, with, bench.shortened(MEASURED)).await?.cpu * 2.0;
                let latency = Some(one_by_one(&shard, with).await?);
                Ok(Row {
                    cpu,
                    latency,
                    bytes,
                    ..Row::new(PAIR, way, beside, there)
                })
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

/// Pairs on a thousand keys in turn, 50 in flight.
pub async fn pace(shard: &Shard, with: With, span: Duration) -> Result<Pace> {
    let mut cycle = Cycle::default();
    for some in shard.probes().chunks(DEPTH) {
        let pairs = some.iter().flat_map(|key| pair(with, key.as_bytes()));
        cycle.send(&pairs.collect::<Vec<_>>(), 1);
    }
    drive(&shard.server, vec![cycle], span).await
}

/// As a client sees it that waits for each reply.
pub async fn one_by_one(shard: &Shard, with: With) -> Result<Spread> {
    let mut connection: Connection = shard.connection().await?;
    let mut times = Vec::new();
    for key in shard.probes() {
        let began = Instant::now();
        for words in pair(with, key.as_bytes()) {
            connection.call(&words).await?;
        }
        times.push(began.elapsed().as_secs_f64());
    }
    Ok(Spread::of(times))
}

fn pair(with: With, key: &[u8]) -> [Vec<&[u8]>; 2] {
    let (owner, ttl) = (OWNER.as_bytes(), TTL.as_bytes());
    match with {
        With::Module => [
            vec![b"LOCK.ACQUIRE", key, owner, ttl],
            vec![b"LOCK.RELEASE", key, owner],
        ],
        With::Nothing => [
            vec![b"SET", key, owner, b"NX", b"PX", ttl],
            vec![b"DEL", key],
        ],
    }
}
