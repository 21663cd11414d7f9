//! A place in the queue: LOCK.ACQUIRE … QUEUE over a connection that others use too. The ways differ
//! in when they ask again.

use super::Venue;
use crate::process::Caller;
use crate::token::Tokens;
use anyhow::{Result, ensure};
use std::time::Duration;

/// A task that keeps a place.
#[derive(Debug)]
pub struct Place {
    /// What it is spoken over.
    pub caller: Caller,
    /// Its owners.
    pub tokens: Tokens,
    key: Vec<u8>,
    ttl: Vec<u8>,
    lease: Vec<u8>,
}

impl Place {
    /// Connects a task whose place is kept for so long after it last asked.
    pub async fn connect(venue: &Venue, lease: Duration) -> Result<Place> {
        Ok(Place {
            caller: venue.process.caller().await?,
            tokens: Tokens::of(venue.client),
            key: venue.key.clone().into_bytes(),
            ttl: venue.ttl_ms(),
            lease: lease.as_millis().to_string().into_bytes(),
        })
    }

    /// Asks, and says whether the lock is held now. It is to be told on this channel, by this message.
    pub async fn ask(&mut self, told: Option<[&[u8]; 2]>) -> Result<bool> {
        let token = self.tokens.latest();
        let mut words: Vec<&[u8]> = vec![b"LOCK.ACQUIRE", &self.key, token, &self.ttl];
        words.extend([b"QUEUE".as_slice(), &self.lease]);
        if let Some(told) = told {
            words.push(b"NOTIFY");
            words.extend(told);
        }
        let fence_or_place = self.caller.call(&words).await?.number()?;
        Ok(fence_or_place > 0)
    }

    /// Lets go of it.
    pub async fn release(&mut self) -> Result<()> {
        let words: [&[u8]; 3] = [b"LOCK.RELEASE", &self.key, self.tokens.latest()];
        let released = self.caller.call(&words).await?.number()?;
        ensure!(released == 1, "LOCK.RELEASE answered {released}");
        Ok(())
    }
}
