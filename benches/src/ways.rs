//! The ways to a lock: each is its published algorithm, over the same connection and runtime.

pub mod asking;
pub mod beside;
pub mod blpop;
pub mod delay;
pub mod documented;
pub mod ear;
pub mod keyspace;
pub mod module;
pub mod notified;
pub mod place;
pub mod polling;
pub mod pubsub;
pub mod repaired;
pub mod token_list;
pub mod trying;
#[cfg(test)]
pub mod unlocked;
pub mod watched;

use crate::connection::Connection;
use crate::process::Process;
use anyhow::Result;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Where a client goes for its lock.
#[derive(Debug, Clone)]
pub struct Venue {
    /// The server.
    pub address: SocketAddr,
    /// The lock's name.
    pub key: String,
    /// How long a hold lasts that nobody ends.
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
    pub fn ttl_ms(&self) -> Vec<u8> {
        self.ttl.as_millis().to_string().into_bytes()
    }

    /// The ttl in whole seconds, at least one.
    pub fn ttl_s(&self) -> Vec<u8> {
        self.ttl.as_secs().max(1).to_string().into_bytes()
    }
}

/// One client of a lock.
pub trait Way: Sized + 'static {
    /// What it is called in tables and figures.
    const NAME: &'static str;
    /// Connections that each client needs.
    const CONNECTIONS: usize = 1;
    /// What it needs `notify-keyspace-events` to be.
    const EVENTS: &'static str = "";
    /// Whether it needs the module.
    const MODULE: bool = false;

    /// Connects a client.
    async fn connect(venue: Venue) -> Result<Self>;
    /// Returns when the lock is held, however long that takes.
    async fn acquire(&mut self) -> Result<()>;
    /// Lets go of it.
    async fn release(&mut self) -> Result<()>;
    /// How many commands the client has sent.
    fn commands(&self) -> u64;
}

/// One that has a connection of its own.
pub trait Connected: Way {
    /// What the lock is spoken over: while it is held, its owner may use it.
    fn connection(&mut self) -> &mut Connection;
}
