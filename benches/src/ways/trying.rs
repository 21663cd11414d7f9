//! The documented lock over a connection that all tasks of a process share: SET NX PX, a script that
//! compares and deletes, and a random delay of 100 ms on average between tries.

use super::delay::Delay;
use super::documented::COMPARE_AND_DELETE;
use super::{Venue, Way};
use crate::answer::Answer;
use crate::process::Caller;
use crate::token::Tokens;
use anyhow::{Result, bail};

/// Tries again about every 100 ms.
#[derive(Debug)]
pub struct Trying {
    caller: Caller,
    tokens: Tokens,
    key: Vec<u8>,
    ttl: Vec<u8>,
    script: Box<[u8]>,
    delay: Delay,
}

impl Trying {
    async fn try_once(&mut self) -> Result<bool> {
        let token = self.tokens.latest();
        let words: [&[u8]; 6] = [b"SET", &self.key, token, b"NX", b"PX", &self.ttl];
        Ok(!self.caller.call(&words).await?.is_nil())
    }
}

impl Way for Trying {
    const NAME: &'static str = "SET NX PX, tries every 100 ms";

    async fn connect(venue: Venue) -> Result<Self> {
        let mut caller = venue.process.caller().await?;
        let load: [&[u8]; 3] = [b"SCRIPT", b"LOAD", COMPARE_AND_DELETE.as_bytes()];
        let Answer::Text(script) = caller.call(&load).await? else {
            bail!("SCRIPT LOAD gave no name");
        };
        Ok(Trying {
            caller,
            tokens: Tokens::of(venue.client),
            ttl: venue.ttl_ms(),
            key: venue.key.into_bytes(),
            script,
            delay: Delay::default(),
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        while !self.try_once().await? {
            self.delay.pass().await;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let token = self.tokens.latest();
        let words: [&[u8]; 5] = [b"EVALSHA", &self.script, b"1", &self.key, token];
        self.caller.call(&words).await?;
        Ok(())
    }

    fn commands(&self) -> u64 {
        self.caller.commands()
    }
}
