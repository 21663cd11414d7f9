//! What a connection takes in the server's memory, and how much more when it waits.

use super::memory;
use crate::bench::{Bench, Figures};
use crate::limits;
use crate::runtime::{sleep, spawn};
use crate::server::{Server, With};
use crate::ways::module::Module;
use crate::ways::token_list::TokenList;
use crate::ways::{Connected, Venue};
use crate::words::{Table, count};
use anyhow::Result;
use futures_lite::future;
use serde_json::json;
use std::time::Duration;

const WAITERS: usize = 2_000;
/// So long after its last command a connection has shed the buffers that it no longer needs: some
/// 35 KB, in which a waiter would be lost.
pub const SETTLE: Duration = Duration::from_secs(8);

/// Those of LOCK beside those of BLPOP, both at a time.
pub async fn run(bench: &mut Bench) -> Result<()> {
    // Two crowds, on two servers.
    let waiters = WAITERS.min(limits::connections()? / 2 - 10);
    let measuring = future::try_zip(measure::<TokenList>(waiters), measure::<Module>(waiters));
    let what = format!("memory of {} waiters", count(waiters as f64));
    let measured = bench
        .attempt("memory", &what, SETTLE * 2, measuring)
        .await?;
    let Some((blpop, lock)) = measured else {
        return Ok(());
    };
    let mut table = Table::new(&["bytes of a connection", "idle", "more when it waits"]);
    for bytes in [blpop, lock] {
        table.row(vec![
            bytes.way.to_owned(),
            count(bytes.idle),
            count(bytes.more),
        ]);
        let fields = json!({
            "waiters": waiters,
            "bytes_of_idle_connection": bytes.idle,
            "bytes_more_when_waiting": bytes.more,
        });
        bench.keep(Figures::new("memory", bytes.way, fields));
    }
    bench.say(&table.text());
    Ok(())
}

/// The server's memory, for each of the connections.
#[derive(Debug)]
pub struct Bytes {
    way: &'static str,
    /// While it does nothing.
    pub idle: f64,
    /// By so much more when it waits.
    pub more: f64,
}

/// Those of so many that wait for one lock.
pub async fn measure<W: Connected>(waiters: usize) -> Result<Bytes> {
    let server = Server::start(With::what_needs::<W>()).await?;
    let mut control = server.control().await?;
    let mut holder = W::connect(Venue::new(server.address(), "lock", 0)).await?;
    holder.acquire().await?;
    let empty = memory(&server).await?;
    let mut ways = Vec::new();
    for client in 1..=waiters {
        let mut way = W::connect(Venue::new(server.address(), "lock", client)).await?;
        way.connection().call(&[b"PING"]).await?;
        ways.push(way);
    }
    sleep(SETTLE).await;
    let idle = memory(&server).await?;
    let tasks: Vec<_> = ways
        .into_iter()
        .map(|mut way| spawn(async move { way.acquire().await }))
        .collect();
    let blocked = u64::try_from(waiters)?;
    control
        .wait_for("blocked_clients", |clients| clients == blocked)
        .await?;
    sleep(SETTLE).await;
    let waiting = memory(&server).await?;
    drop(tasks);
    let each = |bytes: f64| bytes / waiters as f64;
    Ok(Bytes {
        way: W::NAME,
        idle: each(idle - empty),
        more: each(waiting - idle),
    })
}
