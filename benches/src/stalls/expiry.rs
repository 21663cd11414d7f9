//! Very many locks end in the same instant, and somebody waits for each of them.

use super::SPAN;
use super::mass::{Load, measure};
use super::row::Row;
use super::seen::Seen;
use crate::bench::Bench;
use crate::words::count;
use anyhow::Result;
use std::time::Duration;

const PART: &str = "stalls: expiry";
const BOUND: Duration = Duration::from_millis(5);

/// The one case.
pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let load = Load::as_limits_allow(bench.is_quick())?;
    let what = format!(
        "{} locks end at once, each waited for",
        count(load.locks as f64)
    );
    let measured = bench.attempt(PART, &what, SPAN * 2, measure(load)).await?;
    let row = |gap| Row::new(PART, what, Seen::of_gap(gap), BOUND).linear();
    Ok(measured.map(row).into_iter().collect())
}
