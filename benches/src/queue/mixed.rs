//! Clients that poll, beside as many that wait with BLOCK.

use crate::bench::{Bench, Figures};
use crate::contention::{Load, Outcome, measure};
use crate::ways::Way;
use crate::ways::asking::Asking;
use crate::ways::beside::Beside;
use crate::ways::module::Module;
use crate::ways::trying::Trying;
use crate::words::{Table, count, some};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

/// The part of the figures that this is.
pub const PART: &str = "queue: pollers";
/// Of each kind.
const CLIENTS: usize = 4;
const SPAN: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_millis(1);

/// What both kinds were granted, all of a kind together.
#[derive(Debug, Clone)]
pub struct Mixed {
    /// How the pollers poll.
    pub way: &'static str,
    /// What the pollers were granted.
    pub pollers: u64,
    /// What those were granted who wait.
    pub waiters: u64,
    /// 99 of 100 of all waited for at most so many seconds.
    pub wait_p99: f64,
}

impl Mixed {
    fn of(way: &'static str, outcome: &Outcome) -> Mixed {
        let all = |from| outcome.shares.iter().skip(from).step_by(2).sum();
        Mixed {
            way,
            pollers: all(0),
            waiters: all(1),
            wait_p99: outcome.wait.p99,
        }
    }

    /// The pollers' part beside that of the others.
    pub fn part(&self) -> f64 {
        self.pollers as f64 / self.waiters as f64
    }

    fn figures(&self) -> Figures {
        let fields = json!({
            "beside_as_many_that_block": CLIENTS,
            "hold_ms": HOLD.as_millis(),
            "grants_of_pollers": self.pollers,
            "grants_of_blocked": self.waiters,
            "wait_p99_ms": self.wait_p99 * 1e3,
        });
        Figures::new(PART, self.way, fields)
    }
}

/// Measures both ways to poll.
pub async fn run(bench: &mut Bench) -> Result<Vec<Mixed>> {
    let all: Vec<Mixed> = [
        attempt::<Asking>(bench).await?,
        attempt::<Trying>(bench).await?,
    ]
    .into_iter()
    .flatten()
    .collect();
    let clients = some(CLIENTS, "client");
    let mut table = Table::new(&[
        &format!("{clients} beside {CLIENTS} that BLOCK"),
        "grants of theirs",
        "of those who BLOCK",
    ]);
    for mixed in &all {
        table.row(vec![
            mixed.way.to_owned(),
            count(mixed.pollers as f64),
            count(mixed.waiters as f64),
        ]);
        bench.keep(mixed.figures());
    }
    bench.say(&table.text());
    Ok(all)
}

async fn attempt<W: Way>(bench: &Bench) -> Result<Option<Mixed>> {
    let load = Load {
        clients: CLIENTS * 2,
        hold: HOLD,
        span: bench.shortened(SPAN),
        one_process: true,
    };
    let what = format!("beside those who BLOCK: {}", W::NAME);
    let measuring = measure::<Beside<W, Module>>(&load);
    let outcome = bench.attempt(PART, &what, load.span, measuring).await?;
    Ok(outcome.map(|outcome| Mixed::of(W::NAME, &outcome)))
}
