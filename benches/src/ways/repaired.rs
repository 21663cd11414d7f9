//! SETNX again, and an end that a second command sets. Who meets a lock without one sets it.
//!
//! The repair is there because a holder may die between the two commands. It costs each try that
//! fails a second command.

use super::watched::Watched;
use super::{Connected, Venue, Way};
use crate::connection::Connection;
use crate::runtime::sleep;
use anyhow::Result;
use std::time::Duration;

/// Tries again every millisecond.
#[derive(Debug)]
pub struct Repaired {
    lock: Watched,
    ttl: Vec<u8>,
}

impl Repaired {
    async fn set_end(&mut self) -> Result<()> {
        let words: [&[u8]; 3] = [b"EXPIRE", &self.lock.key, &self.ttl];
        self.lock.connection.call(&words).await?;
        Ok(())
    }
}

impl Way for Repaired {
    const NAME: &'static str = "SETNX, then EXPIRE";

    async fn connect(venue: Venue) -> Result<Self> {
        Ok(Repaired {
            ttl: venue.ttl_s(),
            lock: Watched::connect(venue).await?,
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.lock.tokens.renew();
        while !self.lock.try_once().await? {
            let words: [&[u8]; 2] = [b"TTL", &self.lock.key];
            if self.lock.connection.call(&words).await?.number()? < 0 {
                self.set_end().await?;
            }
            sleep(Duration::from_millis(1)).await;
        }
        self.set_end().await
    }

    async fn release(&mut self) -> Result<()> {
        self.lock.release().await
    }

    fn commands(&self) -> u64 {
        self.lock.commands()
    }
}

impl Connected for Repaired {
    fn connection(&mut self) -> &mut Connection {
        &mut self.lock.connection
    }
}
