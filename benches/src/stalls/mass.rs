//! Very many locks end in the same instant, and somebody waits for each of them.
//!
//! As many as there may be connections wait for one lock each; the rest wait for a thousand at
//! once, by MACQUIRE.

use super::crowd::hold;
use crate::answer::Answer;
use crate::connection::Connection;
use crate::limits;
use crate::pinger::{Gap, Pinger};
use crate::runtime::{sleep, spawn};
use crate::server::{Server, With};
use anyhow::{Result, ensure};
use async_task::Task;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

const LOCKS: usize = 100_000;
/// What one MACQUIRE asks for.
const AT_ONCE: usize = 1000;
/// One address of the loopback offers some 28,000 ports.
const MOST_CONNECTIONS: usize = 25_000;
const OWNER: &str = "0190f3b2-6a55-7c10-8f1e-4b7a52d9c001";
const TTL: &[u8] = b"3600000";

/// How many locks, and who waits for them.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// The locks.
    pub locks: usize,
    /// Waiters for one lock.
    singles: usize,
}

impl Load {
    /// As many waiters for one lock as there may be connections.
    pub fn as_limits_allow(quick: bool) -> Result<Load> {
        limits::raise_open_files(LOCKS as u64 + 1000)?;
        let connections = limits::connections()?.min(MOST_CONNECTIONS);
        Ok(if quick {
            // A tenth of them, and a bit of both.
            let locks = LOCKS / 10;
            Load::of(locks, connections.min(locks / 2))
        } else {
            Load::of(LOCKS, connections)
        })
    }

    fn of(locks: usize, connections: usize) -> Load {
        // Some connections are for the waiters of many, and for ourselves.
        let others = locks.div_ceil(AT_ONCE) + 10;
        let singles = locks.min(connections.saturating_sub(others));
        Load { locks, singles }
    }
}

/// The longest time without a sign of life until all are granted.
pub async fn measure(load: Load) -> Result<Gap> {
    let server = Server::start(With::Module).await?;
    let mut control = server.control().await?;
    control.lift_limits(With::Module).await?;
    let began = Instant::now();
    hold(&server, load.locks, "lock:", OWNER).await?;
    let filling = began.elapsed();

    let grants = Rc::new(Grants::default());
    let waiters = wait_for_all(&server, load, &grants).await?;
    let waiting = u64::try_from(waiters.len())?;
    control
        .wait_for("blocked_clients", |clients| clients == waiting)
        .await?;

    // To renew them takes about as long as to make them.
    let end = Instant::now() + Duration::from_secs(1) + filling * 3;
    end_together(&server, load.locks, end).await?;
    let pinger = Pinger::start(&server)?;
    while grants.locks.get() < load.locks {
        sleep(Duration::from_millis(20)).await;
        if let Some(trouble) = grants.trouble.take() {
            return Err(trouble);
        }
    }
    pinger.stop()
}

#[derive(Debug, Default)]
struct Grants {
    locks: Cell<usize>,
    trouble: RefCell<Option<anyhow::Error>>,
}

async fn wait_for_all(server: &Server, load: Load, grants: &Rc<Grants>) -> Result<Vec<Task<()>>> {
    let keys: Vec<String> = (0..load.locks)
        .map(|number| format!("lock:{number}"))
        .collect();
    let (singles, rest) = keys.split_at(load.singles);
    let mut tasks = Vec::new();
    for some in singles.chunks(1).chain(rest.chunks(AT_ONCE)) {
        let (size, owner) = (some.len().to_string(), format!("waiter:{}", tasks.len()));
        let mut words: Vec<&[u8]> = match some.len() {
            1 => vec![b"LOCK.ACQUIRE"],
            _ => vec![b"LOCK.MACQUIRE", size.as_bytes()],
        };
        words.extend(some.iter().map(String::as_bytes));
        words.extend([owner.as_bytes(), TTL, b"BLOCK".as_slice(), b"0"]);
        let mut connection = Connection::open(server.address()).await?;
        connection.push(&words);
        connection.send().await?;
        let (grants, locks) = (Rc::clone(grants), some.len());
        tasks.push(spawn(async move {
            match fence(connection).await {
                Ok(()) => {
                    grants.locks.set(grants.locks.get() + locks);
                }
                Err(error) => *grants.trouble.borrow_mut() = Some(error),
            }
        }));
    }
    Ok(tasks)
}

async fn fence(mut connection: Connection) -> Result<()> {
    let fence = connection.answer().await?.number()?;
    ensure!(fence > 0, "a waiter was answered {fence}");
    Ok(())
}

/// Renews all holds so that they end at this moment.
async fn end_together(server: &Server, locks: usize, end: Instant) -> Result<()> {
    let connection = &mut server.control().await?.connection;
    let numbers: Vec<usize> = (0..locks).collect();
    for some in numbers.chunks(500) {
        let left = end.saturating_duration_since(Instant::now());
        let ttl = left.as_millis().to_string();
        for number in some {
            let key = format!("lock:{number}");
            connection.push(&[
                b"LOCK.RENEW",
                key.as_bytes(),
                OWNER.as_bytes(),
                ttl.as_bytes(),
            ]);
        }
        let renewed = connection.last_of(some.len()).await?;
        ensure!(
            renewed == Answer::Number(1),
            "the locks ended before they were all renewed"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lock_has_somebody_who_waits_for_it_however_few_connections_there_are() {
        let waiters = |connections| {
            let load = Load::of(100_000, connections);
            (load.singles, (load.locks - load.singles).div_ceil(AT_ONCE))
        };
        assert_eq!(waiters(200_000), (100_000, 0));
        assert_eq!(waiters(20_110), (20_000, 80));
        assert_eq!(waiters(500), (390, 100));
        assert_eq!(waiters(50), (0, 100));
    }
}
