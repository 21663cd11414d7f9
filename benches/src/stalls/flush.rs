//! Everything goes at once, with very many queues or very many holds.

use super::crowd::{Crowd, MOST_KEYS, TTL, hold, keys, pipeline, pop};
use super::row::Row;
use super::seen::{End, Seen, call, of_command};
use super::{SPAN, TIMES_ALONE};
use crate::bench::Bench;
use crate::server::{Server, With};
use crate::words::count;
use anyhow::{Context, Result};
use std::time::Duration;

const PART: &str = "stalls: flush";
const QUEUES: usize = 100_000;
const HOLDS: usize = 1_000_000;
const BOUND: Duration = Duration::from_millis(5);
/// What the server's own FLUSHALL is measured by.
const FLUSHALL: &str = "FLUSHALL ASYNC";
const SWAP: &str = "SWAPDB 0 1";
/// Nobody listens there.
const DEMOTE: &str = "REPLICAOF 127.0.0.1 1";
/// Right behind the demotion, with what that has left.
const PROMOTE: &str = "REPLICAOF NO ONE";
const COMMANDS: [&str; 5] = [FLUSHALL, "FLUSHDB ASYNC", SWAP, DEMOTE, PROMOTE];

/// All that can make it go.
pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let queues = bench.fewer(QUEUES);
    let of_queues = format!("with {} queues", count(queues as f64));
    let measuring = async {
        Ok((
            (plain(queues).await?, demoted(queues).await?),
            with_queues(queues).await?,
        ))
    };
    if let Some((alone, all)) = bench.attempt(PART, &of_queues, SPAN * 3, measuring).await? {
        // Each who waits there is granted a thousand locks in one instant, or none.
        let rows_of_queues = judged(all, &of_queues, alone);
        rows.extend(rows_of_queues.into_iter().map(Row::linear));
    }
    let holds = bench.fewer(HOLDS);
    let of_holds = format!("with {} holds", count(holds as f64));
    let measuring = async {
        let alone = plain(holds).await?;
        Ok(((alone, alone), with_holds(holds).await?))
    };
    if let Some((alone, all)) = bench.attempt(PART, &of_holds, SPAN * 4, measuring).await? {
        rows.extend(judged(all, &of_holds, alone));
    }
    Ok(rows)
}

/// On top of what the server itself does when all keys go, or when it sends away all who wait.
fn judged(
    all: Vec<(&'static str, Seen)>,
    with: &str,
    (emptied, demoted): (Seen, Seen),
) -> Vec<Row> {
    let row = |(command, seen)| {
        let row = Row::new(PART, format!("{command} {with}"), seen, BOUND);
        let alone = if command == DEMOTE { demoted } else { emptied };
        row.on_top_of(alone.turn())
    };
    all.into_iter().map(row).collect()
}

/// What the server itself needs for as many plain keys.
async fn plain(number: usize) -> Result<Seen> {
    let server = Server::start(With::Nothing).await?;
    let connection = &mut server.control().await?.connection;
    let mut all = Vec::new();
    for _ in 0..TIMES_ALONE {
        let set = |which| format!("SET lock:{which} owner PX {TTL}");
        pipeline(connection, number, set).await?;
        all.push(of_command(&server, FLUSHALL, End::Reply).await?);
    }
    let shortest = all.into_iter().reduce(Seen::or_shorter);
    shortest.context("nothing was measured")
}

/// What the server itself needs to send as many away who wait for as many keys by a command of its own.
async fn demoted(queues: usize) -> Result<Seen> {
    let server = Server::start(With::Nothing).await?;
    let waits = |member: usize| {
        let first = member * MOST_KEYS;
        pop(first, MOST_KEYS.min(queues - first))
    };
    let _crowd = Crowd::that_waits(&server, queues.div_ceil(MOST_KEYS), waits).await?;
    of_command(&server, DEMOTE, End::Blocked(0)).await
}

/// Each of the locks is held, and waited for by somebody who waits for a thousand.
async fn with_queues(queues: usize) -> Result<Vec<(&'static str, Seen)>> {
    let server = Server::start(With::Module).await?;
    let mut control = server.control().await?;
    control.set("lock.max-waiters-total", "0").await?;
    let mut all = Vec::new();
    for command in COMMANDS {
        let mut crowd = None;
        if command != PROMOTE {
            hold(&server, queues, "lock:", "holder").await?;
            let waits = |member: usize| {
                let first = member * MOST_KEYS;
                let locks = keys("lock:", first, MOST_KEYS.min(queues - first));
                format!("LOCK.MACQUIRE {locks} waiter:{member} {TTL} BLOCK 0")
            };
            let waiters = queues.div_ceil(MOST_KEYS);
            crowd = Some(Crowd::that_waits(&server, waiters, waits).await?);
        }
        all.push((
            command,
            of_command(&server, command, End::Blocked(0)).await?,
        ));
        drop(crowd);
        if command != DEMOTE {
            call(&mut control.connection, "FLUSHALL").await?;
        }
    }
    Ok(all)
}

/// Nobody waits.
async fn with_holds(holds: usize) -> Result<Vec<(&'static str, Seen)>> {
    let server = Server::start(With::Module).await?;
    let mut control = server.control().await?;
    let mut all = Vec::new();
    for command in COMMANDS {
        if command != PROMOTE {
            hold(&server, holds, "lock:", "holder").await?;
        }
        all.push((command, of_command(&server, command, End::Reply).await?));
        if command == SWAP {
            // They are in the other database now.
            call(&mut control.connection, SWAP).await?;
        }
    }
    Ok(all)
}
