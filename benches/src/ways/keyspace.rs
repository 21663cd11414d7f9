//! SET NX PX and the script, and waiters that listen for the server's own news of the key.
//!
//! Needs `notify-keyspace-events Kgx` on the server. Who fails the first try subscribes to the
//! key's channel, tries once more, and tries again whenever `del` or `expired` is heard. That an
//! expired key is told of only when the server comes across it is a known trait of this way.

use super::documented::Documented;
use super::ear::Ear;
use super::{Connected, Venue, Way};
use crate::answer::Answer;
use crate::connection::Connection;
use anyhow::Result;

/// A connection for commands, and one that hears.
#[derive(Debug)]
pub struct Keyspace {
    lock: Documented,
    ear: Ear,
}

impl Keyspace {
    async fn hear_that_it_went(&mut self) -> Result<()> {
        loop {
            let news = self.ear.hear().await?;
            if let Some(Answer::Text(event)) = news.items().get(2)
                && matches!(&**event, b"del" | b"expired")
            {
                return Ok(());
            }
        }
    }
}

impl Way for Keyspace {
    const NAME: &'static str = "keyspace events";
    const CONNECTIONS: usize = 2;
    const EVENTS: &'static str = "Kgx";

    async fn connect(venue: Venue) -> Result<Self> {
        let channel = format!("__keyspace@0__:{}", venue.key);
        Ok(Keyspace {
            ear: Ear::connect(venue.address, channel).await?,
            lock: Documented::connect(venue).await?,
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.lock.tokens.renew();
        if self.lock.try_once().await? {
            return Ok(());
        }
        self.ear.open().await?;
        while !self.lock.try_once().await? {
            self.hear_that_it_went().await?;
        }
        self.ear.close().await
    }

    async fn release(&mut self) -> Result<()> {
        self.lock.release().await
    }

    fn commands(&self) -> u64 {
        self.lock.connection.commands() + self.ear.commands()
    }
}

impl Connected for Keyspace {
    fn connection(&mut self) -> &mut Connection {
        &mut self.lock.connection
    }
}
