//! python-redis-lock's way: SET NX EX, and a list beside it on which waiters block.
//!
//! The releasing script puts one element into an emptied list, so one waiter wakes and tries the
//! SET again; somebody who comes along may be faster. The element itself ends after a second, so
//! that it is not there for somebody who comes much later. Nobody pushes when a hold expires: a
//! waiter then learns of it when its BLPOP has lasted as long as a hold may.

use super::{Connected, Venue, Way};
use crate::connection::Connection;
use crate::token::Tokens;
use anyhow::Result;

const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 1
end
redis.call('DEL', KEYS[2])
redis.call('LPUSH', KEYS[2], 1)
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('DEL', KEYS[1])
return 0";

/// Blocks on the list until told.
#[derive(Debug)]
pub struct Blpop {
    connection: Connection,
    key: Vec<u8>,
    signal: Vec<u8>,
    ttl: Vec<u8>,
    tokens: Tokens,
    script: Box<[u8]>,
}

impl Way for Blpop {
    const NAME: &'static str = "SET NX, BLPOP signal";

    async fn connect(venue: Venue) -> Result<Self> {
        let mut connection = Connection::open(venue.address).await?;
        let script = connection.load(RELEASE).await?;
        Ok(Blpop {
            connection,
            ttl: venue.ttl_s(),
            signal: format!("signal:{}", venue.key).into_bytes(),
            key: venue.key.into_bytes(),
            tokens: Tokens::of(venue.client),
            script,
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        loop {
            let token = self.tokens.latest();
            let words: [&[u8]; 6] = [b"SET", &self.key, token, b"NX", b"EX", &self.ttl];
            if !self.connection.call(&words).await?.is_nil() {
                return Ok(());
            }
            let words: [&[u8]; 3] = [b"BLPOP", &self.signal, &self.ttl];
            self.connection.call(&words).await?;
        }
    }

    async fn release(&mut self) -> Result<()> {
        let token = self.tokens.latest();
        let words: [&[u8]; 7] = [
            b"EVALSHA",
            &self.script,
            b"2",
            &self.key,
            &self.signal,
            token,
            b"1000",
        ];
        self.connection.call(&words).await?;
        Ok(())
    }

    fn commands(&self) -> u64 {
        self.connection.commands()
    }
}

impl Connected for Blpop {
    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
