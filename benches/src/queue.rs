//! Places in the queue, which need no connection of their own: 200 tasks of one process want one lock. Each asks, holds
//! it, releases it, and asks again as a new owner.

use crate::bench::{Bench, Goal};
use crate::contention::{Load, Outcome, measure, table};
use crate::ways::Way;
use crate::ways::module::{Asking, Module, Notified};
use crate::ways::polling::Polling;
use crate::words::{count, ms, some, time, times};
use anyhow::Result;
use std::time::Duration;

const PART: &str = "queue";
const TASKS: usize = 200;
/// Each has its turn very often.
const SPAN: Duration = Duration::from_secs(5);
/// Where no task is told, a lock that is free waits for the next to ask, 50 ms on average: with 200 tasks it is 10 s
/// from turn to turn.
const LONG_SPAN: Duration = Duration::from_secs(25);
const BLOCK: &str = "BLOCK, a connection each";

/// Those with places share one connection; the others need a connection each.
pub async fn run(bench: &Bench) -> Result<()> {
    bench.title("The queue: 200 tasks of one process");
    let mut goals = Vec::new();
    for hold in [Duration::ZERO, Duration::from_millis(1)] {
        let outcomes = [
            attempt::<Notified>(bench, Notified::NAME, hold, SPAN).await?,
            attempt::<Asking>(bench, Asking::NAME, hold, LONG_SPAN).await?,
            attempt::<Polling<100>>(bench, Polling::<100>::NAME, hold, LONG_SPAN).await?,
            attempt::<Module>(bench, BLOCK, hold, SPAN).await?,
        ];
        let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
        println!("{}", table(&some(TASKS, "task"), hold, &outcomes));
        goals.extend(goals_of(&outcomes));
    }
    bench.judge(PART, goals);
    Ok(())
}

async fn attempt<W: Way>(
    bench: &Bench,
    way: &'static str,
    hold: Duration,
    span: Duration,
) -> Result<Option<Outcome>> {
    let load = Load { clients: TASKS, hold, span: bench.shortened(span), one_process: true };
    let what = format!("{}, held {}: {way}", some(TASKS, "task"), ms(hold));
    let outcome = bench.attempt(PART, &what, load.span, measure::<W>(&load)).await?;
    Ok(outcome.map(|outcome| Outcome { way, ..outcome }))
}

/// Tasks that share a connection are served in turn, and soon.
fn goals_of(outcomes: &[Outcome]) -> Vec<Goal> {
    let find = |way| outcomes.iter().find(|outcome| outcome.way == way);
    let named =
        |outcome: &Outcome, what| format!("{}, held {}: {what}", outcome.way, ms(outcome.hold));
    let mut goals = Vec::new();
    for outcome in [Notified::NAME, Asking::NAME].into_iter().filter_map(find) {
        let index = |index: f64| format!("{index:.3}");
        goals.push(Goal::at_least(named(outcome, "fairness"), outcome.fairness, 0.99, index));
    }
    let Some(ours) = find(Notified::NAME) else {
        return goals;
    };
    goals.push(Goal::at_most(named(ours, "commands for a grant"), ours.commands, 3.1, times));
    if let Some(rival) = find(Polling::<100>::NAME) {
        let goal =
            Goal::at_most(named(ours, "wait p99"), ours.wait.p99, rival.wait.p99 * 0.2, time);
        goals.push(goal.of("a fifth of the 100 ms poller's"));
    }
    // Without a hold the hand-over is all there is, and a message makes it longer.
    if let Some(blocked) = find(BLOCK).filter(|blocked| !blocked.hold.is_zero()) {
        let goal =
            Goal::at_least(named(ours, "grants in a second"), ours.rate, blocked.rate * 0.8, count);
        goals.push(goal.of("80 % of those by BLOCK"));
    }
    goals
}
