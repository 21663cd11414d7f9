//! What redis-lock costs, measured beside what people use instead, on this machine.
//!
//!   ONLY=contention   one part of it
//!   QUICK=1           a minute's look; the figures are not to be trusted
//!   REDIS_SERVER=...  the server to start

mod answer;
mod bars;
mod bench;
mod connection;
mod contention;
mod expiry;
mod growth;
mod handover;
mod limits;
mod load;
mod market;
mod picture;
mod runtime;
mod server;
mod stats;
mod token;
mod uncontended;
mod ways;
mod words;

use anyhow::{Result, bail};
use bench::Bench;
use std::path::Path;
use std::{env, fs};

const RESULTS: &str = "benches/results";
/// A quick look leaves the figures alone that were measured in earnest.
const QUICK_RESULTS: &str = "target/bench-quick";
const PARTS: [&str; 5] = ["market", "contention", "handover", "growth", "uncontended"];

fn main() -> Result<()> {
    runtime::block_on(measure())?
}

async fn measure() -> Result<()> {
    let only = env::var("ONLY").unwrap_or_default();
    if !only.is_empty() && !PARTS.contains(&only.as_str()) {
        bail!("ONLY={only} is no part. The parts: {}", PARTS.join(", "));
    }
    let wanted = |part: &str| only.is_empty() || only == part;
    let quick = env::var("QUICK").is_ok_and(|quick| !quick.is_empty() && quick != "0");
    let results = Path::new(if quick { QUICK_RESULTS } else { RESULTS });
    fs::create_dir_all(results)?;
    let mut bench = Bench::begin(quick);
    let outcome = measure_parts(&mut bench, wanted, results).await;
    // Also when something went wrong: what was measured until then is right.
    let ending = bench.end(&results.join("figures.json")).await;
    outcome.and(ending)
}

async fn measure_parts(
    bench: &mut Bench,
    wanted: impl Fn(&str) -> bool,
    results: &Path,
) -> Result<()> {
    if wanted("market") {
        bench.title("The market: listers and buyers under one lock");
        let outcomes = market::run(bench).await?;
        market::draw(&outcomes, results)?;
        bench.judge(bars::market(&outcomes));
    }
    if wanted("contention") {
        bench.title("Contention: many clients on one lock");
        let outcomes = contention::run(bench).await?;
        contention::draw(&outcomes, results)?;
        bench.judge(bars::contention(&outcomes));
    }

    if wanted("handover") {
        bench.title("Hand-over: from a release to the next holder's answer");
        let outcomes = handover::run(bench).await?;
        handover::draw(&outcomes, results)?;
        bench.judge(bars::handover(&outcomes));
        bench.title("Expiry: from the end of a hold that nobody released");
        let outcomes = expiry::run(bench).await?;
        bench.judge(bars::expiry(&outcomes));
    }

    if wanted("growth") {
        bench.title("Growth: with a million locks, and when very many expire at once");
        let costs = growth::run(bench).await?;
        bench.judge(bars::growth(&costs));
    }
    if wanted("uncontended") {
        bench.title("Uncontended: acquire and release with nobody in the way");
        uncontended::run(bench).await?;
        bench.title("The tax: other traffic beside the module");
        uncontended::tax(bench).await?;
    }

    Ok(())
}
