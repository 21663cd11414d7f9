//! Redisson's way: the lock is a hash, a release publishes, waiters subscribe and try again.
//!
//! Who fails the first try subscribes, tries once more (the release may have been in between),
//! and then waits for a message, at most for as long as the hold still lasts; and again. Here
//! each client is a process of its own, as workers on many machines are, so each release is told
//! to all who wait. (Redisson wakes one thread of each process.)

use super::ear::Ear;
use super::{Connected, Venue, Way};
use crate::answer::Answer;
use crate::connection::Connection;
use crate::runtime::sleep;
use crate::token::Tokens;
use anyhow::Result;
use futures_lite::future;
use std::time::Duration;

/// Answers nil when the caller has the lock, else for how many milliseconds it is still taken.
const ACQUIRE: &str = "\
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
    redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    return false
end
return redis.call('PTTL', KEYS[1])";

const RELEASE: &str = "\
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
    return false
end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], ARGV[1])
return 1";

/// A connection for commands, and one that hears.
#[derive(Debug)]
pub struct PubSub {
    connection: Connection,
    ear: Ear,
    key: Vec<u8>,
    channel: Vec<u8>,
    ttl: Vec<u8>,
    tokens: Tokens,
    acquire: Box<[u8]>,
    release: Box<[u8]>,
}

impl PubSub {
    /// How long to wait if the lock is taken.
    async fn try_once(&mut self) -> Result<Option<Duration>> {
        let token = self.tokens.latest();
        let words: [&[u8]; 6] = [b"EVALSHA", &self.acquire, b"1", &self.key, &self.ttl, token];
        Ok(match self.connection.call(&words).await? {
            Answer::Number(ms) => Some(Duration::from_millis(ms.try_into().unwrap_or(0))),
            _ => None,
        })
    }

    async fn wait_in_line(&mut self) -> Result<()> {
        while let Some(left) = self.try_once().await? {
            let time_is_up = async {
                sleep(left).await;
                Ok(())
            };
            let told = async { self.ear.hear().await.map(drop) };
            future::or(told, time_is_up).await?;
        }
        Ok(())
    }
}

impl Way for PubSub {
    const NAME: &'static str = "pub/sub wake";
    const CONNECTIONS: usize = 2;

    async fn connect(venue: Venue) -> Result<Self> {
        let channel = format!("channel:{}", venue.key);
        let mut connection = Connection::open(venue.address).await?;
        Ok(PubSub {
            ear: Ear::connect(venue.address, channel.clone()).await?,
            acquire: connection.load(ACQUIRE).await?,
            release: connection.load(RELEASE).await?,
            connection,
            ttl: venue.ttl_ms(),
            channel: channel.into_bytes(),
            key: venue.key.into_bytes(),
            tokens: Tokens::of(venue.client),
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        if self.try_once().await?.is_none() {
            return Ok(());
        }
        self.ear.open().await?;
        self.wait_in_line().await?;
        self.ear.close().await
    }

    async fn release(&mut self) -> Result<()> {
        let token = self.tokens.latest();
        let words: [&[u8]; 8] = [
            b"EVALSHA",
            &self.release,
            b"2",
            &self.key,
            &self.channel,
            b"0",
            &self.ttl,
            token,
        ];
        self.connection.call(&words).await?;
        Ok(())
    }

    fn commands(&self) -> u64 {
        self.connection.commands() + self.ear.commands()
    }
}

impl Connected for PubSub {
    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
