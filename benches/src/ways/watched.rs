//! The lock of books on Redis before scripts: SETNX without an end, released under WATCH.
//!
//! A holder that dies leaves it locked for ever.

use super::{Connected, Venue, Way};
use crate::answer::Answer;
use crate::connection::Connection;
use crate::runtime::sleep;
use crate::token::Tokens;
use anyhow::Result;
use std::time::Duration;

/// Tries again every millisecond.
#[derive(Debug)]
pub struct Watched {
    /// Its connection.
    pub connection: Connection,
    /// The lock's name.
    pub key: Vec<u8>,
    /// Its owners.
    pub tokens: Tokens,
}

impl Watched {
    /// Takes the lock if nobody has it.
    pub async fn try_once(&mut self) -> Result<bool> {
        let words: [&[u8]; 3] = [b"SETNX", &self.key, self.tokens.latest()];
        Ok(self.connection.call(&words).await? == Answer::Number(1))
    }
}

impl Way for Watched {
    const NAME: &'static str = "SETNX, WATCH release";

    async fn connect(venue: Venue) -> Result<Self> {
        Ok(Watched {
            connection: Connection::open(venue.address).await?,
            key: venue.key.into_bytes(),
            tokens: Tokens::of(venue.client),
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        while !self.try_once().await? {
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let Watched {
            connection,
            key,
            tokens,
        } = self;
        loop {
            connection.call(&[b"WATCH", key]).await?;
            let held = connection.call(&[b"GET", key]).await?;
            if held != Answer::Text(tokens.latest().into()) {
                connection.call(&[b"UNWATCH"]).await?;
                return Ok(());
            }
            connection.push(&[b"MULTI"]);
            connection.push(&[b"DEL", key]);
            connection.push(&[b"EXEC"]);
            if !connection.last_of(3).await?.is_nil() {
                return Ok(());
            }
        }
    }

    fn commands(&self) -> u64 {
        self.connection.commands()
    }
}

impl Connected for Watched {
    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
