//! This project's way: LOCK.ACQUIRE with BLOCK, and LOCK.RELEASE.

use super::{Connected, Venue, Way};
use crate::connection::Connection;
use crate::token::Tokens;
use anyhow::{Result, ensure};

/// Waits in the server.
#[derive(Debug)]
pub struct Module {
    connection: Connection,
    key: Vec<u8>,
    ttl: Vec<u8>,
    tokens: Tokens,
}

impl Module {
    /// The lock's name and its owner, for LOCK.GUARD.
    pub fn owner(&self) -> (&[u8], &[u8]) {
        (&self.key, self.tokens.latest())
    }
}

impl Way for Module {
    const NAME: &'static str = "LOCK";
    const MODULE: bool = true;

    async fn connect(venue: Venue) -> Result<Self> {
        Ok(Module {
            connection: Connection::open(venue.address).await?,
            ttl: venue.ttl_ms(),
            key: venue.key.into_bytes(),
            tokens: Tokens::of(venue.client),
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        let token = self.tokens.latest();
        let words: [&[u8]; 6] = [b"LOCK.ACQUIRE", &self.key, token, &self.ttl, b"BLOCK", b"0"];
        let fence = self.connection.call(&words).await?.number()?;
        ensure!(fence > 0, "LOCK.ACQUIRE answered {fence}");
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let token = self.tokens.latest();
        let words: [&[u8]; 3] = [b"LOCK.RELEASE", &self.key, token];
        let released = self.connection.call(&words).await?.number()?;
        ensure!(released == 1, "LOCK.RELEASE answered {released}");
        Ok(())
    }

    fn commands(&self) -> u64 {
        self.connection.commands()
    }
}

impl Connected for Module {
    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
