//! Every known way in which one command or one event could hold up the whole server.
//!
//! Each is made to happen on a server of its own, while another connection sends a PING each
//! millisecond; what is judged is the server's longest turn. And what a server does while nobody asks it
//! anything.

mod asleep;
pub mod crowd;
mod expiry;
mod flush;
mod many;
mod mass;
mod retries;
mod row;
mod scripts;
mod search;
pub mod seen;
mod sessions;
mod sharing;
mod slots;
mod tables;

use crate::bench::Bench;
use crate::limits;
use crate::pinger::Pinger;
use crate::runtime::sleep;
use crate::server::{Server, With};
use crate::words::time;
use anyhow::Result;
pub use row::Row;
use std::time::Duration;

/// Its own parts, which can be measured alone.
pub const SCENES: [&str; 11] = [
    "sessions", "search", "retries", "asleep", "tables", "sharing", "slots", "scripts", "many",
    "expiry", "flush",
];

/// As long as one of them takes.
const SPAN: Duration = Duration::from_secs(20);
/// So often is measured what the server alone does, where a bound is on top of that.
const TIMES_ALONE: usize = 3;
const CALM: Duration = Duration::from_secs(1);
/// For 9,000 connections, and our own.
const OPEN_FILES: u64 = 12_000;

/// Measures those that are wanted.
pub async fn run(bench: &mut Bench, wanted: impl Fn(&str) -> bool) -> Result<Vec<Row>> {
    limits::raise_open_files(OPEN_FILES)?;
    bench.say(&format!(
        "  (the longest gap while nothing happens, for a second: {})\n",
        time(calm().await?.as_secs_f64())
    ));
    let mut all = Vec::new();
    for scene in SCENES.into_iter().filter(|scene| wanted(scene)) {
        let rows = match scene {
            "sessions" => sessions::run(bench).await?,
            "search" => search::run(bench).await?,
            "retries" => retries::run(bench).await?,
            "asleep" => asleep::run(bench).await?,
            "tables" => tables::run(bench).await?,
            "sharing" => sharing::run(bench).await?,
            "slots" => slots::run(bench).await?,
            "scripts" => scripts::run(bench).await?,
            "many" => many::run(bench).await?,
            "expiry" => expiry::run(bench).await?,
            _ => flush::run(bench).await?,
        };
        for row in &rows {
            bench.keep(row.figures());
        }
        all.extend(rows);
    }
    bench.say(&row::table(&all));
    Ok(all)
}

/// What a gap is at least, on this machine, as it is now.
async fn calm() -> Result<Duration> {
    let server = Server::start(With::Module).await?;
    let pinger = Pinger::start(&server)?;
    sleep(CALM).await;
    Ok(pinger.stop()?.seen)
}
