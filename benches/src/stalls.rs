//! Every known way in which one command or one event could hold up the whole server.
//!
//! Each is made to happen on a server of its own, while another connection sends a PING each
//! millisecond; what is judged is the server's longest turn. And what an idle server does.

mod asleep;
pub mod crowd;
mod expiry;
mod flush;
mod many;
mod places;
mod retries;
mod row;
mod scripts;
mod search;
pub mod seen;
mod sessions;
mod sharing;
mod slots;
mod tables;

use crate::answer::Answer;
use crate::bench::Bench;
use crate::connection::Connection;
use crate::limits;
use crate::pinger::Pinger;
use crate::runtime::{Task, sleep, spawn};
use crate::server::{Server, With};
use crate::words::{count, some, time};
use anyhow::{Context, Result, bail, ensure};
use crowd::{Crowd, MOST_KEYS, TTL, hold, keys, pipeline, pop};
use row::{Row, Unit};
use seen::{End, Seen, of_command, of_commands, of_event, of_repeated};
use std::cell::{Cell, RefCell};
use std::fs;
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Its own parts, which can be measured alone.
pub const SCENES: [&str; 12] = [
    "sessions", "search", "retries", "asleep", "tables", "places", "sharing", "slots", "scripts",
    "many", "expiry", "flush",
];

/// As long as one of them takes.
const SPAN: Duration = Duration::from_secs(20);
/// So often is measured what the server alone does, where a bound is on top of that.
const TIMES_ALONE: usize = 3;
/// So often is measured what misses its bound.
const TIMES_MISSED: usize = 3;
/// Of most turns.
const BOUND: Duration = Duration::from_millis(2);
/// No server listens there.
const DEMOTE: &str = "REPLICAOF 127.0.0.1 1";
const CALM: Duration = Duration::from_secs(1);
/// For 9,000 connections, and our own.
const OPEN_FILES: u64 = 12_000;

/// Measures those that are wanted.
pub async fn run(bench: &Bench, wanted: impl Fn(&str) -> bool) -> Result<()> {
    bench.title("Stalls: what one command or one event holds up");
    limits::raise_open_files(OPEN_FILES)?;
    let calm = time(calm().await?.as_secs_f64());
    println!("  (the longest gap while nothing happens, for a second: {calm})\n");
    let mut all = Vec::new();
    for name in SCENES.into_iter().filter(|scene| wanted(scene)) {
        let part = format!("stalls: {name}");
        let mut rows = measured(bench, name, &part).await?;
        // Other work on the machine can only lengthen a turn: what is missed is measured again.
        for _ in 1..TIMES_MISSED {
            if bench.is_quick || rows.iter().all(Row::is_met) {
                break;
            }
            for again in measured(bench, name, &part).await? {
                for row in rows.iter_mut().filter(|row| row.what == again.what) {
                    *row = row.clone().or_better(again.clone());
                }
            }
        }
        bench.judge(&part, rows.iter().map(Row::goal));
        all.extend(rows);
    }
    println!("{}", row::table(&all));
    Ok(())
}

/// The rows of one part.
async fn measured(bench: &Bench, name: &str, part: &str) -> Result<Vec<Row>> {
    let mut scene = Scene { bench, part: part.to_owned(), rows: Vec::new() };
    match name {
        "sessions" => sessions::run(&mut scene).await?,
        "search" => search::run(&mut scene).await?,
        "retries" => retries::run(&mut scene).await?,
        "asleep" => asleep::run(&mut scene).await?,
        "tables" => tables::run(&mut scene).await?,
        "places" => places::run(&mut scene).await?,
        "sharing" => sharing::run(&mut scene).await?,
        "slots" => slots::run(&mut scene).await?,
        "scripts" => scripts::run(&mut scene).await?,
        "many" => many::run(&mut scene).await?,
        "expiry" => expiry::run(&mut scene).await?,
        _ => flush::run(&mut scene).await?,
    }
    Ok(scene.rows)
}

/// One of them, and what was seen there.
struct Scene<'b> {
    bench: &'b Bench,
    part: String,
    rows: Vec<Row>,
}

impl Scene<'_> {
    /// Measures something that takes so many times as long as most.
    async fn attempt<T>(
        &self,
        what: &str,
        times: u32,
        measuring: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        let span = SPAN * times;
        self.bench.attempt(&self.part, what, span, measuring).await
    }

    /// The same of the server alone, and then of the server with the module.
    async fn beside(
        &self,
        what: &str,
        times: u32,
        alone: impl Future<Output = Result<Seen>>,
        ours: impl Future<Output = Result<Seen>>,
    ) -> Result<Option<(Seen, Seen)>> {
        let measuring = async { Ok((alone.await?, ours.await?)) };
        self.attempt(what, times, measuring).await
    }

    fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Measures a turn that has a bound, and nothing else beside it.
    async fn turn(
        &mut self,
        what: String,
        bound: Duration,
        measuring: impl Future<Output = Result<Seen>>,
    ) -> Result<()> {
        let seen = self.attempt(&what, 1, measuring).await?;
        self.rows.extend(seen.map(|seen| Row::new(what, seen, bound)));
        Ok(())
    }
}

/// What a gap is at least, on this machine, as it is now.
async fn calm() -> Result<Duration> {
    let server = Server::start(With::Module).await?;
    let pinger = Pinger::start(&server)?;
    sleep(CALM).await;
    Ok(pinger.stop()?.seen)
}
