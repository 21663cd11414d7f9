//! A list with one element in it: who has taken it out has the lock, who is done puts it back.
//!
//! No owner, no end: a holder that dies takes the element with it. So it is no lock to use, but it
//! is the fastest hand-over that the server itself has: BLPOP serves in order, one waiter a push.

use super::{Connected, Venue, Way};
use crate::connection::Connection;
use anyhow::Result;

/// Waits for the element.
#[derive(Debug)]
pub struct TokenList {
    connection: Connection,
    key: Vec<u8>,
}

impl Way for TokenList {
    const NAME: &'static str = "bare BLPOP";

    async fn connect(venue: Venue) -> Result<Self> {
        let mut connection = Connection::open(venue.address).await?;
        let key = venue.key.into_bytes();
        if venue.client == 0 {
            connection.call(&[b"RPUSH", &key, b"1"]).await?;
        }
        Ok(TokenList { connection, key })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.connection.call(&[b"BLPOP", &self.key, b"0"]).await?;
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.connection.call(&[b"RPUSH", &self.key, b"1"]).await?;
        Ok(())
    }

    fn commands(&self) -> u64 {
        self.connection.commands()
    }
}

impl Connected for TokenList {
    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
