//! What redis-lock costs, measured beside what people use instead, on this machine.
//!
//!   ONLY=contention   one part of it
//!   QUICK=1           a minute's look; the figures are not to be trusted
//!   REDIS_SERVER=...  the server to start

mod answer;
mod bench;
mod connection;
mod contention;
mod limits;
mod runtime;
mod server;
mod stats;
mod token;
mod ways;
mod words;

use anyhow::{Result, bail};
use bench::Bench;
use std::path::Path;
use std::{env, fs};

const RESULTS: &str = "benches/results";
const PARTS: [&str; 1] = ["contention"];

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
    let mut bench = Bench::begin(quick);

    if wanted("contention") {
        bench.title("Contention: many clients on one lock");
        contention::run(&mut bench).await?;
    }

    fs::create_dir_all(RESULTS)?;
    bench.write(&Path::new(RESULTS).join("figures.json")).await
}
