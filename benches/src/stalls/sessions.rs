//! Connections that close, and the holds that are tied to them.

use super::crowd::{Crowd, TTL, pipeline};
use super::row::Row;
use super::seen::{End, Seen, of_commands, of_event};
use super::{SPAN, TIMES_ALONE};
use crate::bench::Bench;
use crate::limits;
use crate::server::{Server, With};
use crate::words::{count, some};
use anyhow::Result;
use std::time::Duration;

const PART: &str = "stalls: sessions";
const CROWD: usize = 9_000;
const SMALLER_CROWD: usize = 4_000;
const HOLDS: usize = 100_000;
/// Our own connection, and those of the pinger and of whoever has filled the server.
const OURS: usize = 3;
const KILL: &str = "CLIENT KILL TYPE normal";

/// All that close.
pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let most = limits::connections()?;
    let crowd = bench.fewer(CROWD).min(most);
    let smaller = bench.fewer(SMALLER_CROWD).min(most);
    let holds = bench.fewer(HOLDS);
    let mut rows = Vec::new();
    for in_transaction in [false, true] {
        let within = if in_transaction { ", in MULTI" } else { "" };
        let what = format!(
            "{} connections with a SESSION hold each are killed{within}",
            count(crowd as f64)
        );
        let measuring = async {
            Ok((
                alone(crowd, in_transaction).await?,
                killed(crowd, 1, in_transaction).await?,
            ))
        };
        if let Some((plain, tied)) = bench.attempt(PART, &what, SPAN, measuring).await? {
            let row = Row::new(PART, what, tied, Duration::from_millis(30));
            rows.push(row.on_top_of(plain.turn()));
        }
    }
    let what = format!(
        "{} connections with 10 SESSION holds each are killed",
        count(smaller as f64)
    );
    let measuring = async {
        Ok((
            alone(smaller, false).await?,
            killed(smaller, 10, false).await?,
        ))
    };
    if let Some((plain, tied)) = bench.attempt(PART, &what, SPAN, measuring).await? {
        let row = Row::new(PART, what, tied, Duration::from_millis(100));
        rows.push(row.beside(plain.turn()));
    }
    let what = format!("a connection with {} closes", some(holds, "SESSION hold"));
    if let Some(seen) = bench.attempt(PART, &what, SPAN, closed(holds)).await? {
        rows.push(Row::new(PART, what, seen, Duration::from_millis(5)));
    }
    Ok(rows)
}

/// So many connections without a hold.
async fn alone(connections: usize, in_transaction: bool) -> Result<Seen> {
    let mut shortest = killed(connections, 0, in_transaction).await?;
    for _ in 1..TIMES_ALONE {
        shortest = shortest.or_shorter(killed(connections, 0, in_transaction).await?);
    }
    Ok(shortest)
}

/// So many connections with so many holds each are killed by one command.
async fn killed(connections: usize, holds: usize, in_transaction: bool) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    let crowd = Crowd::with_replies(&server, connections, |member| match holds {
        0 => "PING".to_owned(),
        _ => tied(member, 0),
    });
    let mut crowd = crowd.await?;
    for hold in 1..holds {
        crowd.send(|member| tied(member, hold)).await?;
        crowd.replies().await?;
    }
    let end = match holds {
        0 => End::Connections(OURS),
        _ => End::Keys(0),
    };
    let kill = KILL.to_owned();
    if in_transaction {
        let commands = ["MULTI".to_owned(), kill, "EXEC".to_owned()];
        of_commands(&server, &commands, end).await
    } else {
        of_commands(&server, &[kill], end).await
    }
}

fn tied(member: usize, hold: usize) -> String {
    format!("LOCK.ACQUIRE lock:{member}:{hold} owner:{member} {TTL} SESSION")
}

/// One connection with so many holds closes.
async fn closed(holds: usize) -> Result<Seen> {
    let server = Server::start(With::Module).await?;
    let mut holder = server.control().await?.connection;
    pipeline(&mut holder, holds, |hold| tied(0, hold)).await?;
    let connection = &mut server.control().await?.connection;
    of_event(&server, async {
        drop(holder);
        End::Keys(0).wait(connection).await
    })
    .await
}
