//! The documented lock: SET NX PX, a script that compares and deletes, and a sleep between tries.
//!
//! With 100 ms this is what redis-py's Lock does by default; 1 ms and 10 ms are common in code of
//! one's own.

use super::documented::Documented;
use super::{Connected, Venue, Way};
use crate::connection::Connection;
use crate::runtime::sleep;
use anyhow::Result;
use std::time::Duration;

/// Tries again every so many milliseconds.
#[derive(Debug)]
pub struct Polling<const MS: u64> {
    lock: Documented,
}

impl<const MS: u64> Way for Polling<MS> {
    const NAME: &'static str = match MS {
        1 => "poll every 1 ms",
        10 => "poll every 10 ms",
        _ => "poll every 100 ms",
    };

    async fn connect(venue: Venue) -> Result<Self> {
        let lock = Documented::connect(venue).await?;
        Ok(Polling { lock })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.lock.tokens.renew();
        while !self.lock.try_once().await? {
            sleep(Duration::from_millis(MS)).await;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.lock.release().await
    }

    fn commands(&self) -> u64 {
        self.lock.connection.commands()
    }
}

impl<const MS: u64> Connected for Polling<MS> {
    fn connection(&mut self) -> &mut Connection {
        &mut self.lock.connection
    }
}
