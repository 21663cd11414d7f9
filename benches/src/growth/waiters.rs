//! What a connection takes in the server's memory, and how much more when it waits.

use super::memory;
use crate::bench::{Bench, Figures};
use crate::limits;
use crate::runtime::spawn;
use crate::server::{Server, With};
use crate::ways::module::Module;
use crate::ways::token_list::TokenList;
use crate::ways::{Venue, Way};
use crate::words::{Table, count};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

const WAITERS: usize = 2_000;
const SPAN: Duration = Duration::from_secs(5);

/// Those of LOCK beside those of BLPOP.
pub async fn run(bench: &mut Bench) -> Result<()> {
    let waiters = WAITERS.min(limits::connections()? - 10);
    let mut table = Table::new(&["memory of a connection", "idle", "more when it waits"]);
    for measured in [
        attempt::<TokenList>(bench, waiters).await?,
        attempt::<Module>(bench, waiters).await?,
    ]
    .into_iter()
    .flatten()
    {
        table.row(vec![
            measured.way.to_owned(),
            count(measured.idle),
            count(measured.more),
        ]);
        let fields = json!({
            "waiters": waiters,
            "bytes_of_idle_connection": measured.idle,
            "bytes_more_when_waiting": measured.more,
        });
        bench.keep(Figures::new("memory", measured.way, fields));
    }
    bench.say(&table.text());
    Ok(())
}

struct Bytes {
    way: &'static str,
    idle: f64,
    more: f64,
}

async fn attempt<W: Way>(bench: &Bench, waiters: usize) -> Result<Option<Bytes>> {
    let what = format!("memory of waiters: {}", W::NAME);
    bench
        .attempt("memory", &what, SPAN, measure::<W>(waiters))
        .await
}

async fn measure<W: Way>(waiters: usize) -> Result<Bytes> {
    let server = Server::start(With::what_needs::<W>()).await?;
    let mut holder = W::connect(Venue::new(server.address(), "lock", 0)).await?;
    holder.acquire().await?;
    let empty = memory(&server).await?;
    let mut ways = Vec::new();
    for client in 1..=waiters {
        ways.push(W::connect(Venue::new(server.address(), "lock", client)).await?);
    }
    let idle = memory(&server).await?;
    let tasks: Vec<_> = ways
        .into_iter()
        .map(|mut way| spawn(async move { way.acquire().await }))
        .collect();
    let blocked = u64::try_from(waiters)?;
    let mut control = server.control().await?;
    control
        .wait_for("blocked_clients", |clients| clients == blocked)
        .await?;
    let waiting = memory(&server).await?;
    drop(tasks);
    let each = |bytes: f64| bytes / waiters as f64;
    Ok(Bytes {
        way: W::NAME,
        idle: each(idle - empty),
        more: each(waiting - idle),
    })
}
