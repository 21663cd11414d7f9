//! Places in the queue, which need no connection of their own, beside those who wait by a blocked
//! connection and those who poll.

pub mod memory;
pub mod million;
pub mod mixed;
pub mod tasks;

use crate::bench::Bench;
use crate::contention;
use crate::limits;
use anyhow::Result;
use memory::Bytes;
use million::Million;
use mixed::Mixed;

/// Its own parts, which can be measured alone.
pub const SCENES: [&str; 4] = ["tasks", "pollers", "memory", "million"];

/// For 10,000 connections that wait, and our own.
const OPEN_FILES: u64 = 12_000;

/// What was measured. What was given up is missing, and what was not wanted.
#[derive(Debug, Default)]
pub struct Outcomes {
    /// Tasks of one process.
    pub tasks: Vec<contention::Outcome>,
    /// Clients that poll beside clients that wait.
    pub mixed: Vec<Mixed>,
    /// What those who wait take in memory.
    pub memory: Vec<Bytes>,
    /// A million places.
    pub million: Option<Million>,
}

/// Measures those that are wanted.
pub async fn run(bench: &mut Bench, wanted: impl Fn(&str) -> bool) -> Result<Outcomes> {
    limits::raise_open_files(OPEN_FILES)?;
    let mut all = Outcomes::default();
    for scene in SCENES.into_iter().filter(|scene| wanted(scene)) {
        match scene {
            "tasks" => all.tasks = tasks::run(bench).await?,
            "pollers" => all.mixed = mixed::run(bench).await?,
            "memory" => all.memory = memory::run(bench).await?,
            _ => all.million = million::run(bench).await?,
        }
    }
    Ok(all)
}
