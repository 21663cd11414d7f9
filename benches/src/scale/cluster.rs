//! The same on the masters of a cluster: each decides about its own locks.

use super::shard::Shard;
use super::{PAIR, PART, Row, SPAN, expiring, held, waiting};
use crate::bench::Bench;
use crate::runtime::spawn;
use crate::server::With;
use crate::words::some;
use anyhow::Result;
use std::rc::Rc;
use std::time::Duration;

const MASTERS: [usize; 3] = [1, 3, 6];
const HELD: usize = 100_000;
const PLACES: usize = 1_000;
const EXPIRE: usize = 1_000;
const HANDOVERS: usize = 20_000;
const MEASURED: Duration = Duration::from_secs(2);

/// More and more masters, and none but a single server outside of a cluster.
pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let held = if bench.is_quick() { HELD / 5 } else { HELD };
    let span = bench.shortened(MEASURED);
    let mut all = Vec::new();
    for masters in MASTERS {
        let what = format!("a cluster of {}", some(masters, "master"));
        let measuring = measure(masters, held, span, bench.fewer(HANDOVERS));
        let rows = bench.attempt(PART, &what, SPAN, measuring).await?;
        all.extend(rows.into_iter().flatten());
    }
    Ok(all)
}

async fn measure(
    masters: usize,
    held: usize,
    span: Duration,
    handovers: usize,
) -> Result<Vec<Row>> {
    let shards: Vec<Rc<Shard>> = Shard::cluster(masters)
        .await?
        .into_iter()
        .map(Rc::new)
        .collect();
    let mut bytes = 0.0;
    for shard in &shards {
        shard.hold(&shard.names("lock:", 0, held)).await?;
        bytes += shard
            .bytes_each(shard.empty, held)
            .await?
            .unwrap_or(f64::NAN);
    }
    // All at the same time, and the mean of all.
    let tasks: Vec<_> = shards
        .iter()
        .map(|shard| {
            let shard = Rc::clone(shard);
            spawn(async move { held::pace(&shard, With::Module, span).await })
        })
        .collect();
    let mut cpu = 0.0;
    for task in tasks {
        cpu += task.await?.cpu * 2.0;
    }
    let all = masters as f64;
    let mut rows = Vec::new();
    if let Some(shard) = shards.first() {
        rows = vec![
            Row {
                cpu: cpu / all,
                latency: Some(held::one_by_one(shard, With::Module).await?),
                bytes: Some(bytes / all),
                ..Row::new(PAIR, "LOCK", "held locks on each", held)
            },
            waiting::with_places(shard, PLACES, handovers).await?,
            expiring::expire(shard, EXPIRE).await?,
        ];
    }
    for row in &mut rows {
        row.masters = Some(masters);
    }
    Ok(rows)
}
