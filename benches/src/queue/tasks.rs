//! The tasks of one process want one lock: each asks, holds it, lets go, and asks again as a new owner.
//!
//! They share one connection, but for those who block: those need a connection each.

use crate::bench::Bench;
use crate::contention::{Load, Outcome, figures, measure};
use crate::ways::Way;
use crate::ways::asking::Asking;
use crate::ways::module::Module;
use crate::ways::notified::Notified;
use crate::ways::trying::Trying;
use crate::words::{Table, count, ms, some, time, times};
use anyhow::Result;
use std::time::Duration;

/// The part of the figures that this is.
pub const PART: &str = "queue: tasks";
const TASKS: usize = 200;
const HOLDS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(1)];
/// Each has its turn very often.
const SPAN: Duration = Duration::from_secs(5);
/// Where nobody is told, a lock that is free waits for the next to ask, 50 ms on average: with 200
/// tasks it is 10 s from turn to turn.
const LONG_SPAN: Duration = Duration::from_secs(25);
/// What BLOCK is called here.
pub const BLOCK: &str = "BLOCK, a connection each";

/// Measures all ways.
pub async fn run(bench: &mut Bench) -> Result<Vec<Outcome>> {
    let mut all = Vec::new();
    for hold in HOLDS {
        let outcomes: Vec<Outcome> = [
            attempt::<Notified>(bench, Notified::NAME, hold, SPAN).await?,
            attempt::<Asking>(bench, Asking::NAME, hold, LONG_SPAN).await?,
            attempt::<Trying>(bench, Trying::NAME, hold, LONG_SPAN).await?,
            attempt::<Module>(bench, BLOCK, hold, SPAN).await?,
        ]
        .into_iter()
        .flatten()
        .collect();
        bench.say(&table(hold, &outcomes));
        for outcome in &outcomes {
            bench.keep(figures(PART, outcome));
        }
        all.extend(outcomes);
    }
    Ok(all)
}

async fn attempt<W: Way>(
    bench: &Bench,
    way: &'static str,
    hold: Duration,
    span: Duration,
) -> Result<Option<Outcome>> {
    let load = Load {
        clients: TASKS,
        hold,
        span: bench.shortened(span),
        one_process: true,
    };
    let what = format!("{}, held {}: {}", some(TASKS, "task"), ms(hold), way);
    let measuring = measure::<W>(&load);
    let outcome = bench.attempt(PART, &what, load.span, measuring).await?;
    Ok(outcome.map(|outcome| Outcome { way, ..outcome }))
}

fn table(hold: Duration, outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&[
        &format!("{}, held {}", some(TASKS, "task"), ms(hold)),
        "grants/s",
        "wait p50",
        "p99",
        "idle p50",
        "Jain",
        "fairness",
        "commands",
        "bytes",
        "CPU",
    ]);
    for outcome in outcomes {
        table.row(vec![
            outcome.way.to_owned(),
            count(outcome.rate()),
            time(outcome.wait.p50),
            time(outcome.wait.p99),
            outcome.idle.shown(outcome.idle.p50),
            format!("{:.3}", outcome.jain),
            format!("{:.3}", outcome.fairness),
            times(outcome.commands),
            count(outcome.bytes),
            time(outcome.cpu),
        ]);
    }
    table.text()
}
