//! What a connection takes in the server's memory, and how much more when it waits.

use crate::runtime::{sleep, spawn};
use crate::server::{Server, With};
use crate::ways::{Connected, Venue};
use anyhow::Result;
use std::time::Duration;

/// So long after its last command a connection has shed the buffers that it no longer needs: some
/// 35 KB, in which a waiter would be lost.
const SETTLE: Duration = Duration::from_secs(8);

/// The server's memory, for each of the connections.
#[derive(Debug)]
pub struct Bytes {
    /// While it does nothing.
    pub idle: f64,
    /// By so much more when it waits.
    pub more: f64,
}

/// Those of so many that wait for one lock.
pub async fn measure<W: Connected>(waiters: usize) -> Result<Bytes> {
    let server = Server::start(With::what_needs::<W>()).await?;
    let mut control = server.control().await?;
    control.lift_limits(With::what_needs::<W>()).await?;
    let mut holder = W::connect(Venue::new(server.address(), "lock", 0)).await?;
    holder.acquire().await?;
    let empty = server.memory().await?;
    let mut ways = Vec::new();
    for client in 1..=waiters {
        let mut way = W::connect(Venue::new(server.address(), "lock", client)).await?;
        way.connection().call(&[b"PING"]).await?;
        ways.push(way);
    }
    sleep(SETTLE).await;
    let idle = server.memory().await?;
    let tasks: Vec<_> = ways
        .into_iter()
        .map(|mut way| spawn(async move { way.acquire().await }))
        .collect();
    let blocked = u64::try_from(waiters)?;
    control
        .wait_for("blocked_clients", |clients| clients == blocked)
        .await?;
    sleep(SETTLE).await;
    let waiting = server.memory().await?;
    drop(tasks);
    let each = |bytes: f64| bytes / waiters as f64;
    Ok(Bytes {
        idle: each(idle - empty),
        more: each(waiting - idle),
    })
}
