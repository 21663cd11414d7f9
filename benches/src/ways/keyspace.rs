//! SET NX PX and the script, and waiters that listen for the server's own news of the key.
//!
//! Needs `notify-keyspace-events Kgx` on the server. Who fails the first try subscribes to the
//! key's channel, tries once more, and tries again whenever `del` or `expired` is heard. That an
//! expired key is told of only when the server comes across it is a known trait of this way.

use super::pubsub::unsubscribe;
use super::{COMPARE_AND_DELETE, Venue, Way};
use crate::answer::Answer;
use crate::connection::Connection;
use crate::token::Tokens;
use anyhow::Result;

/// A connection for commands, and one that hears.
#[derive(Debug)]
pub struct Keyspace {
    connection: Connection,
    ear: Connection,
    key: Vec<u8>,
    channel: Vec<u8>,
    ttl: Vec<u8>,
    tokens: Tokens,
    script: Box<[u8]>,
}

impl Keyspace {
    async fn try_once(&mut self) -> Result<bool> {
        let token = self.tokens.latest();
        let words: [&[u8]; 6] = [b"SET", &self.key, token, b"NX", b"PX", &self.ttl];
        Ok(!self.connection.call(&words).await?.is_nil())
    }

    async fn hear_that_it_went(&mut self) -> Result<()> {
        loop {
            let news = self.ear.answer().await?;
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
        let mut connection = Connection::open(venue.address).await?;
        Ok(Keyspace {
            ear: Connection::open(venue.address).await?,
            script: connection.load(COMPARE_AND_DELETE).await?,
            connection,
            ttl: venue.ttl_ms(),
            channel: format!("__keyspace@0__:{}", venue.key).into_bytes(),
            key: venue.key.into_bytes(),
            tokens: Tokens::of(venue.client),
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        if self.try_once().await? {
            return Ok(());
        }
        self.ear.call(&[b"SUBSCRIBE", &self.channel]).await?;
        while !self.try_once().await? {
            self.hear_that_it_went().await?;
        }
        unsubscribe(&mut self.ear, &self.channel).await
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
        self.connection.commands() + self.ear.commands()
    }
}
