//! Holds that end by themselves, and somebody waits for each: a place, which needs no connection.

use super::shard::{Shard, for_all};
use super::{EXPIRY, OWNER, PART, Row, SPAN, TTL, sizes};
use crate::bench::Bench;
use crate::idle::Idle;
use crate::runtime::{sleep, sleep_until};
use crate::server::With;
use crate::stalls::seen::field;
use crate::ways::Way;
use crate::ways::module::Module;
use crate::words::count;
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

const THERE: [usize; 3] = [10, 1_000, 100_000];
/// Few cost so little that they have to expire often.
const AT_LEAST: usize = 1_000;
/// Between two looks whether all are granted. A look costs some microseconds.
const LOOK: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(20);
/// To renew a hold takes at most as long.
const RENEW: Duration = Duration::from_micros(40);

/// More and more at the same moment.
pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for there in sizes(bench, THERE) {
        let what = format!("{} holds expire at once", count(there as f64));
        let measuring = async {
            let shard = Shard::alone(With::Module).await?;
            expire(&shard, there).await
        };
        all.extend(bench.attempt(PART, &what, SPAN, measuring).await?);
    }
    Ok(all)
}

/// So many at the same moment, each with one place in its queue.
pub async fn expire(shard: &Shard, there: usize) -> Result<Row> {
    let rounds = AT_LEAST.div_ceil(there);
    let idle = Idle::of(&shard.server).await?;
    let mut cpu = 0.0;
    for round in 0..rounds {
        cpu += expire_once(shard, there, round, &idle).await?;
    }
    let each = cpu / (rounds * there) as f64;
    Ok(Row {
        cpu: each,
        ..Row::new(EXPIRY, Module::NAME, "at once", there)
    })
}

/// Seconds of CPU, from before the end of all to the grant of the last.
async fn expire_once(shard: &Shard, there: usize, round: usize, idle: &Idle) -> Result<f64> {
    let names = shard.names("end:", round * there, there);
    let connection = &mut shard.connection().await?;
    for_all(connection, &names, |name| {
        format!("LOCK.ACQUIRE {name} {OWNER} {TTL}")
    })
    .await?;
    for_all(connection, &names, |name| {
        format!("LOCK.ACQUIRE {name} waiter:{name} {TTL} QUEUE {TTL}")
    })
    .await?;
    let grants = "lock_acquired_after_wait_total";
    let already = field(connection, "lock", grants).await?;
    let end = Instant::now() + RENEW * u32::try_from(there)? + LOOK;
    for_all(connection, &names, |name| {
        let left = end.saturating_duration_since(Instant::now());
        format!("LOCK.RENEW {name} {OWNER} {}", left.as_millis().max(1))
    })
    .await?;
    let mut idle = idle.clone();
    idle.begin(&shard.server)?;
    ensure!(
        Instant::now() < end,
        "the holds ended before they were all renewed"
    );
    sleep_until(end).await;
    loop {
        sleep(LOOK).await;
        let used = idle.used_beyond(&shard.server)?;
        if field(connection, "lock", grants).await? >= already + there {
            return Ok(used);
        }
        ensure!(end.elapsed() < PATIENCE, "not all were granted");
    }
}
