//! Requests whose search for a deadlock is too long, asked again and again.

use super::SPAN;
use super::crowd::{TTL, pipeline};
use super::row::Row;
use super::seen::{Seen, call, push};
use crate::bench::Bench;
use crate::connection::Connection;
use crate::pinger::Pinger;
use crate::runtime::{sleep, spawn};
use crate::server::{Server, With};
use crate::words::count;
use anyhow::Result;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

const PART: &str = "stalls: retries";
const OWNERS: usize = 10_000;
const CLIENTS: usize = 40;
/// Between two requests of a client.
const PAUSE: Duration = Duration::from_millis(50);
const WATCHED: Duration = Duration::from_secs(10);
const BOUND: Duration = Duration::from_millis(5);

/// The one case.
pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let owners = bench.fewer(OWNERS);
    let what = format!(
        "{} owners wait for one lock, and {CLIENTS} clients ask for another in their names, every 50 ms: p99 of PING",
        count(owners as f64)
    );
    let measuring = retried(owners, bench.shortened(WATCHED));
    let measured = bench.attempt(PART, &what, SPAN, measuring).await?;
    let row = |seen| Row::new(PART, what, seen, BOUND);
    Ok(measured.map(row).into_iter().collect())
}

/// All owners have a place in the queue of `a`. Then as many as may have one in that of `b`, and the others ask
/// again and again.
async fn retried(owners: usize, watched: Duration) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    let mut connection = server.control().await?.connection;
    for lock in ["a", "b"] {
        call(
            &mut connection,
            &format!("LOCK.ACQUIRE {lock} holder:{lock} {TTL}"),
        )
        .await?;
    }
    let place = |lock, owner| format!("LOCK.ACQUIRE {lock} owner:{owner} {TTL} QUEUE 60000");
    pipeline(&mut connection, owners, |owner| place("a", owner)).await?;
    for owner in 0..owners {
        push(&mut connection, &place("b", owner));
        connection.send().await?;
        // Some are refused.
        connection.any_answer().await?;
    }
    let over = Rc::new(Cell::new(false));
    let mut clients = Vec::new();
    for client in 0..CLIENTS {
        let mut connection = Connection::open(server.address()).await?;
        let over = Rc::clone(&over);
        clients.push(spawn(async move {
            let mut owner = owners - 1 - client;
            while !over.get() {
                push(&mut connection, &place("b", owner));
                connection.send().await?;
                connection.any_answer().await?;
                owner = owner.checked_sub(CLIENTS).unwrap_or(owners - 1 - client);
                sleep(PAUSE).await;
            }
            anyhow::Ok(())
        }));
    }
    let pinger = Pinger::start(&server)?;
    sleep(watched).await;
    let gap = pinger.stop_at_p99()?;
    over.set(true);
    for client in clients {
        client.await?;
    }
    Ok(Seen::of_gap(gap))
}
