//! The documented lock: SET NX PX, a script that compares and deletes, and a sleep between tries.
//!
//! With 100 ms this is what redis-py's Lock does by default; 1 ms and 10 ms are common in code of
//! one's own.

use super::{COMPARE_AND_DELETE, Venue, Way};
use crate::connection::Connection;
use crate::runtime::sleep;
use crate::token::Tokens;
use anyhow::Result;
use std::time::Duration;

/// Tries again every so many milliseconds.
#[derive(Debug)]
pub struct Polling<const MS: u64> {
    connection: Connection,
    key: Vec<u8>,
    ttl: Vec<u8>,
    tokens: Tokens,
    script: Box<[u8]>,
}

impl<const MS: u64> Way for Polling<MS> {
    const NAME: &'static str = match MS {
        1 => "poll every 1 ms",
        10 => "poll every 10 ms",
        _ => "poll every 100 ms",
    };

    async fn connect(venue: Venue) -> Result<Self> {
        let mut connection = Connection::open(venue.address).await?;
        let script = connection.load(COMPARE_AND_DELETE).await?;
        Ok(Polling {
            connection,
            ttl: venue.ttl_ms(),
            key: venue.key.into_bytes(),
            tokens: Tokens::of(venue.client),
            script,
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        loop {
            let token = self.tokens.latest();
            let words: [&[u8]; 6] = [b"SET", &self.key, token, b"NX", b"PX", &self.ttl];
            if !self.connection.call(&words).await?.is_nil() {
                return Ok(());
            }
            sleep(Duration::from_millis(MS)).await;
        }
    }

    async fn release(&mut self) -> Result<()> {
        let token = self.tokens.latest();
        let words: [&[u8]; 5] = [b"EVALSHA", &self.script, b"1", &self.key, token];
        self.connection.call(&words).await?;
        Ok(())
    }

    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    fn commands(&self) -> u64 {
        self.connection.commands()
    }
}
