//! LOCK.ACQUIRE … QUEUE … NOTIFY: all tasks of a process share a connection, and a message tells
//! each of them that it is its turn.

use super::place::Place;
use super::{Venue, Way};
use crate::process::Listener;
use crate::runtime::sleep;
use anyhow::Result;
use futures_lite::future;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);
/// A message may be lost: it asks by itself, well before its place is given up.
const AGAIN: Duration = Duration::from_secs(10);

/// Asks when it is told.
#[derive(Debug)]
pub struct Notified {
    place: Place,
    listener: Listener,
}

impl Way for Notified {
    const NAME: &'static str = "QUEUE with NOTIFY";
    const MODULE: bool = true;

    async fn connect(venue: Venue) -> Result<Self> {
        let message = venue.client.to_string().into_bytes();
        Ok(Notified {
            place: Place::connect(&venue, LEASE).await?,
            listener: venue.process.listener(message).await?,
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.place.tokens.renew();
        while !self.place.ask(Some(self.listener.address())).await? {
            future::or(self.listener.told(), sleep(AGAIN)).await;
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
