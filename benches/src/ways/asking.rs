//! LOCK.ACQUIRE … QUEUE without messages: all tasks of a process share a connection, and each asks
//! again and again, as one does that comes over HTTP, after a random delay of 100 ms on average.

use super::delay::Delay;
use super::place::Place;
use super::{Venue, Way};
use anyhow::Result;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(5);

/// Asks about every 100 ms.
#[derive(Debug)]
pub struct Asking {
    place: Place,
    delay: Delay,
}

impl Way for Asking {
    const NAME: &'static str = "QUEUE, asks every 100 ms";
    const MODULE: bool = true;

    async fn connect(venue: Venue) -> Result<Self> {
        Ok(Asking {
            place: Place::connect(&venue, LEASE).await?,
            delay: Delay::default(),
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.place.tokens.renew();
        while !self.place.ask(None).await? {
            self.delay.pass().await;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.place.release().await
    }

    fn commands(&self) -> u64 {
        self.place.caller.commands()
    }
}
