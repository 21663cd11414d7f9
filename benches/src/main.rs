//! What redis-lock costs, measured beside what people use instead, on this machine.
//!
//!   ONLY=contention    one part
//!   ONLY=stalls/flush  one of the parts of that part
//!   CHECK=1            fail if a goal is missed
//!   QUICK=1            a short look at everything, too short to be trusted
//!   DRAW=1             draw the pictures and fill the tables of the stored figures again, and measure nothing
//!   REDIS_SERVER=...   the server to start
//!   CONFIG=...         a further line of its configuration: CONFIG="io-threads 4"
//!
//! `redis-lock-benches instructions` counts the instructions of operations instead.

mod answer;
mod bench;
mod connection;
mod contention;
mod draw;
mod handover;
mod instructions;

mod limits;
mod load;
mod market;
mod memory;
mod page;
mod pinger;
mod process;
mod queue;
mod runtime;
mod scale;
mod server;
mod stalls;
mod stats;
mod tenants;
mod uncontended;
mod ways;
mod words;

use anyhow::{Context, Result, bail};
use bench::Bench;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

const RESULTS: &str = "benches/results";
/// A quick look leaves the figures alone that were measured in earnest.
const QUICK_RESULTS: &str = "target/bench-quick";
const PARTS: [&str; 9] = [
    "market",
    "contention",
    "queue",
    "tenants",
    "memory",
    "handover",
    "scale",
    "uncontended",
    "stalls",
];

fn main() -> Result<ExitCode> {
    let mut words = env::args().skip(1);
    match words.next().as_deref() {
        Some("instructions") => instructions::run(words.next().as_deref()),
        Some(other) => bail!("{other}: instructions, or nothing"),
        None => runtime::block_on(measure()).map(|()| ExitCode::SUCCESS),
    }
}

async fn measure() -> Result<()> {
    let only = env::var("ONLY").unwrap_or_default();
    let (part, scene) = wanted(&only)?;
    let is_set = |name| env::var(name).is_ok_and(|value| !value.is_empty() && value != "0");
    let quick = is_set("QUICK");
    let results = Path::new(if quick { QUICK_RESULTS } else { RESULTS });
    fs::create_dir_all(results)?;
    if is_set("DRAW") {
        return show(results, quick);
    }
    let bench = Bench::begin(quick, is_set("CHECK"))?;
    let outcome = measure_parts(&bench, part, scene).await;
    // Also when something went wrong: what was measured until then is right.
    let ending = bench.end(&results.join("figures.json")).await;
    let drawing = show(results, quick);
    outcome.and(ending).and(drawing)
}

/// Draws the pictures and fills the tables of the pages.
fn show(results: &Path, is_quick: bool) -> Result<()> {
    let file = results.join("figures.json");
    let text =
        fs::read_to_string(&file).with_context(|| format!("could not read {}", file.display()))?;
    let parts = serde_json::from_str(&text)?;
    draw::draw_all(&parts, results)?;
    page::fill_all(&parts, results, is_quick)
}

/// The part, and the part of that part, to be measured; empty for all.
fn wanted(only: &str) -> Result<(&str, &str)> {
    let (part, scene) = only.split_once('/').unwrap_or((only, ""));
    if !part.is_empty() && !PARTS.contains(&part) {
        bail!("ONLY={only} is no part. The parts: {}", PARTS.join(", "));
    }
    let scenes: &[&str] = match part {
        "stalls" => &stalls::SCENES,
        _ => &[],
    };
    if !scene.is_empty() && !scenes.contains(&scene) {
        bail!("{part} has no part {scene}, only: {}", scenes.join(", "));
    }
    Ok((part, scene))
}

async fn measure_parts(bench: &Bench, only: &str, scene: &str) -> Result<()> {
    let scene = |name: &str| scene.is_empty() || scene == name;
    for part in PARTS.into_iter().filter(|part| only.is_empty() || only == *part) {
        match part {
            "market" => market::run(bench).await?,
            "contention" => contention::run(bench).await?,
            "queue" => queue::run(bench).await?,
            "tenants" => tenants::run(bench).await?,
            "memory" => memory::run(bench).await?,
            "handover" => handover::run(bench).await?,
            "scale" => scale::run(bench).await?,
            "uncontended" => uncontended::run(bench).await?,
            _ => stalls::run(bench, scene).await?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_or_a_part_of_it_can_be_measured_alone() -> Result<()> {
        assert_eq!(wanted("")?, ("", ""));
        assert_eq!(wanted("stalls")?, ("stalls", ""));
        assert_eq!(wanted("stalls/flush")?, ("stalls", "flush"));
        for none in ["nothing", "stalls/nothing", "queue/flush", "market/flush"] {
            assert!(wanted(none).is_err(), "{none}");
        }
        Ok(())
    }
}
