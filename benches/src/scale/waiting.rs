//! Hand-overs, with more and more in the queue: places that need no connection, and blocked clients.

use super::shard::Shard;
use super::{HANDOVER, PART, Row, SPAN, TTL, sizes, waiters};
use crate::bench::Bench;
use crate::handover;
use crate::idle::Idle;
use crate::limits;
use crate::server::With;
use crate::stalls::crowd::pipeline;
use crate::stalls::seen::push;
use crate::stats::Spread;
use crate::ways::Way;
use crate::ways::module::Module;
use crate::ways::token_list::TokenList;
use crate::words::count;
use anyhow::{Context, Result, ensure};
use std::time::Instant;

const PLACES: [usize; 4] = [1, 1_000, 100_000, 1_000_000];
const BLOCKED: [usize; 4] = [1, 1_000, 10_000, 20_000];
const IN_FLIGHT: usize = 20_000;
const ONE_BY_ONE: usize = 500;
const HANDOVERS: usize = 1_000;
/// What they are called here.
const QUEUE: &str = "QUEUE";
const BLOCK: &str = "BLOCK";
const IN_THE_QUEUE: &str = "in the queue";

/// Both kinds, and bare BLPOP beside those that block.
pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let mut all = Vec::new();
    for places in sizes(bench, PLACES) {
        let what = format!("a hand-over with {} places", count(places as f64));
        let measuring = async {
            let shard = Shard::alone(With::Module).await?;
            with_places(&shard, places, bench.fewer(IN_FLIGHT)).await
        };
        all.extend(bench.attempt(PART, &what, SPAN, measuring).await?);
    }

    limits::raise_open_files(50_000)?;
    let most = limits::connections()?;
    if let Some(remark) = limits::remark(&BLOCKED, most, "blocked clients") {
        bench.say(&remark);
    }
    for waiters in limits::steps(&BLOCKED, if bench.is_quick() { 2_000 } else { most }) {
        let what = format!("a hand-over with {} blocked clients", count(waiters as f64));
        let measuring = with_blocked(waiters, bench.fewer(HANDOVERS));
        let rows = bench.attempt(PART, &what, SPAN * 2, measuring).await?;
        all.extend(rows.into_iter().flatten());
    }
    Ok(all)
}

fn ask(key: &str, place: usize) -> String {
    format!("LOCK.ACQUIRE {key} 0190f3b2-6a55-7c10-8f1e-{place:012} {TTL} QUEUE {TTL}")
}

fn release(key: &str, place: usize) -> String {
    format!("LOCK.RELEASE {key} 0190f3b2-6a55-7c10-8f1e-{place:012}")
}

/// With so many places in the queue of one lock.
pub async fn with_places(shard: &Shard, places: usize, handovers: usize) -> Result<Row> {
    let names = shard.names("queue:", 0, 1);
    let key = names.first().context("a shard without a name")?;
    let mut connection = shard.connection().await?;
    let before = shard.server.memory().await?;
    // The first of them holds the lock.
    let owners = places + 1;
    pipeline(&mut connection, owners, |place| ask(key, place)).await?;
    drop(connection);
    let bytes = shard.bytes_each(before, places).await?;

    // Each in turn releases it, the next one claims it, and the first joins again.
    let turn = |command: usize| {
        let holder = command / 3 % owners;
        match command % 3 {
            0 => release(key, holder),
            1 => ask(key, (holder + 1) % owners),
            _ => ask(key, holder),
        }
    };
    let mut connection = shard.connection().await?;
    let idle = Idle::of(&shard.server).await?;
    pipeline(&mut connection, handovers * 3, turn).await?;
    let cpu = idle.used_beyond(&shard.server)? / handovers as f64;

    let mut times = Vec::new();
    for round in handovers..handovers + ONE_BY_ONE {
        push(&mut connection, &turn(round * 3));
        push(&mut connection, &turn(round * 3 + 1));
        let began = Instant::now();
        let fence = connection.last_of(2).await?.number()?;
        times.push(began.elapsed().as_secs_f64());
        ensure!(fence > 0, "whose turn it was got {fence}");
        push(&mut connection, &turn(round * 3 + 2));
        connection.last_of(1).await?;
    }
    Ok(Row {
        cpu,
        latency: Some(Spread::of(times)),
        bytes,
        ..Row::new(HANDOVER, QUEUE, IN_THE_QUEUE, places)
    })
}

async fn with_blocked(waiters: usize, handovers: usize) -> Result<Vec<Row>> {
    let bare = handover::of::<TokenList>(waiters, handovers).await?;
    let ours = handover::of::<Module>(waiters, handovers).await?;
    // Each connection waits some seconds until it has shed its buffers.
    let bytes = match waiters {
        0..10_000 => None,
        _ => Some(waiters::measure::<Module>(waiters).await?.more),
    };
    let rows = bare.into_iter().chain(ours).map(|outcome| {
        let is_ours = outcome.way == Module::NAME;
        Row {
            cpu: outcome.cpu,
            latency: Some(outcome.latency),
            bytes: bytes.filter(|_| is_ours),
            ..Row::new(
                HANDOVER,
                if is_ours { BLOCK } else { outcome.way },
                IN_THE_QUEUE,
                waiters,
            )
        }
    });
    Ok(rows.collect())
}
