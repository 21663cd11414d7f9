//! The ways to a lock: each is its published algorithm, over the same connection and runtime.

pub mod module;
pub mod polling;
pub mod signals;

use crate::answer::Answer;
use crate::connection::Connection;
use crate::process::{Ear, Listener, Process, Shared};
use crate::runtime::sleep;
use crate::server::With;
use anyhow::{Result, ensure};
use futures_lite::future;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

#[derive(Clone)]
pub struct Venue {
    pub address: SocketAddr,
    pub key: String,
    /// How long a hold lasts that is not released.
    pub ttl: Duration,
    /// Which client this is.
    pub client: usize,
    /// What it shares with the other tasks of its process.
    pub process: Rc<Process>,
}

impl Venue {
    /// One where holds last far longer than any measurement, for a process with no other task.
    pub fn new(address: SocketAddr, key: &str, client: usize) -> Venue {
        Venue {
            address,
            key: key.to_owned(),
            ttl: Duration::from_secs(600),
            client,
            process: Rc::new(Process::new(address)),
        }
    }

    /// The ttl in milliseconds, as a command takes it.
    fn ttl_ms(&self) -> u128 {
        self.ttl.as_millis()
    }
}

pub trait Way: Sized + 'static {
    /// What it is called in tables and figures.
    const NAME: &'static str;
    /// Connections that each client needs.
    const CONNECTIONS: usize = 1;
    const WITH: With = With::Nothing;

    async fn connect(venue: Venue) -> Result<Self>;
    /// Returns when the lock is held, however long that takes.
    async fn acquire(&mut self) -> Result<()>;
    async fn release(&mut self) -> Result<()>;
}

/// One that has a connection of its own.
pub trait Connected: Way {
    /// While the lock is held, its owner may use it.
    fn connection(&mut self) -> &mut Connection;
}

/// Makes up names for the owners of one client: as long as a UUID, never twice the same.
pub struct Tokens {
    client: usize,
    made: u64,
    latest: String,
}

impl Tokens {
    fn of(client: usize) -> Tokens {
        Tokens { client, made: 0, latest: String::new() }
    }

    fn renew(&mut self) {
        self.made += 1;
        self.latest = format!("{:016x}-{:019x}", self.client, self.made);
    }
}

/// No lock at all, for tests: what watches over the others must notice.
#[cfg(test)]
pub struct Unlocked(Connection);

#[cfg(test)]
impl Way for Unlocked {
    const NAME: &'static str = "no lock at all";

    async fn connect(venue: Venue) -> Result<Self> {
        Ok(Unlocked(Connection::open(venue.address).await?))
    }

    async fn acquire(&mut self) -> Result<()> {
        self.0.call("PING").await?;
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
impl Connected for Unlocked {
    fn connection(&mut self) -> &mut Connection {
        &mut self.0
    }
}
