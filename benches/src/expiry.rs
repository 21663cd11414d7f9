//! From the end of a hold that nobody released to the next holder's answer.

use crate::bench::{Bench, Figures};
use crate::runtime::spawn;
use crate::server::{Server, With};
use crate::stats::Spread;
use crate::ways::blpop::Blpop;
use crate::ways::keyspace::Keyspace;
use crate::ways::module::Module;
use crate::ways::polling::Polling;
use crate::ways::pubsub::PubSub;
use crate::ways::{Connected, Venue};
use crate::words::Table;
use anyhow::Result;
use serde_json::json;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Locks that expire side by side, at different moments.
const LOCKS: usize = 10;
const EXPIRIES: usize = 200;
const SHORTEST: Duration = Duration::from_millis(100);
const APART: Duration = Duration::from_millis(7);
const SPAN: Duration = Duration::from_secs(4);

/// How soon one way notices.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The way.
    pub way: &'static str,
    /// From the hold's end to the next holder's answer.
    pub late: Spread,
}

/// Measures all ways.
pub async fn run(bench: &mut Bench) -> Result<Vec<Outcome>> {
    let plain = Server::start(With::Nothing).await?;
    let module = Server::start(With::Module).await?;
    let span = bench.shortened(SPAN);
    let outcomes: Vec<Outcome> = [
        attempt::<Polling<1>>(bench, &plain, span).await?,
        attempt::<Polling<10>>(bench, &plain, span).await?,
        attempt::<Polling<100>>(bench, &plain, span).await?,
        attempt::<Blpop>(bench, &plain, span).await?,
        attempt::<PubSub>(bench, &plain, span).await?,
        attempt::<Keyspace>(bench, &plain, span).await?,
        attempt::<Module>(bench, &module, span).await?,
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut table = Table::new(&[
        "from the end of a hold to the next",
        "p50",
        "p99",
        "max",
        "of",
    ]);
    for outcome in &outcomes {
        table.row(vec![
            outcome.way.to_owned(),
            outcome.late.shown(outcome.late.p50),
            outcome.late.shown(outcome.late.p99),
            outcome.late.shown(outcome.late.max),
            outcome.late.count.to_string(),
        ]);
        bench.keep(Figures::new(
            "expiry",
            outcome.way,
            json!({ "late": outcome.late.to_json() }),
        ));
    }
    bench.say(&table.text());
    Ok(outcomes)
}

async fn attempt<W: Connected>(
    bench: &Bench,
    server: &Server,
    span: Duration,
) -> Result<Option<Outcome>> {
    let what = format!("expiry: {}", W::NAME);
    bench
        .attempt("expiry", &what, span, measure::<W>(server, span))
        .await
}

async fn measure<W: Connected>(server: &Server, span: Duration) -> Result<Outcome> {
    let mut control = server.control().await?;
    control.clear().await?;
    control.set("notify-keyspace-events", W::EVENTS).await?;
    let began = Instant::now();
    let mut late = Vec::new();
    while late.is_empty() || (began.elapsed() < span && late.len() < EXPIRIES) {
        let mut tasks = Vec::new();
        for lock in 0..LOCKS {
            let venue = Venue {
                ttl: SHORTEST + APART * u32::try_from(lock)?,
                ..Venue::new(server.address(), &format!("lock:{lock}"), lock)
            };
            tasks.push(spawn(outlive::<W>(venue)));
        }
        for task in tasks {
            late.push(task.await?);
        }
        control.clear().await?;
    }
    Ok(Outcome {
        way: W::NAME,
        late: Spread::of(late),
    })
}

/// Lets a holder die, so to speak, and gives how late the one that waits has the lock.
async fn outlive<W: Connected>(venue: Venue) -> Result<f64> {
    let key = venue.key.clone();
    let mut holder = W::connect(venue.clone()).await?;
    let mut waiter = W::connect(Venue {
        client: LOCKS + venue.client,
        ..venue
    })
    .await?;
    holder.acquire().await?;
    let words: [&[u8]; 2] = [b"PEXPIRETIME", key.as_bytes()];
    let end = holder.connection().call(&words).await?.number()?;
    waiter.acquire().await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
    Ok(now - end as f64 / 1e3)
}
