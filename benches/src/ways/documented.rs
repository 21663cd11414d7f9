//! The lock that the documentation of SET shows: SET NX with an end, and a script that compares
//! the token and deletes. Several ways differ from it only in how they wait.

use super::Venue;
use crate::connection::Connection;
use crate::token::Tokens;
use anyhow::Result;

/// Deletes the lock if it is the caller's: nearly every library has it.
pub const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0";

/// A client of it that does not know how to wait.
#[derive(Debug)]
pub struct Documented {
    /// What it is spoken over.
    pub connection: Connection,
    /// The lock's name.
    pub key: Vec<u8>,
    /// Its owners.
    pub tokens: Tokens,
    ttl: Vec<u8>,
    script: Box<[u8]>,
}

impl Documented {
    /// Connects a client.
    pub async fn connect(venue: Venue) -> Result<Documented> {
        let mut connection = Connection::open(venue.address).await?;
        let script = connection.load(COMPARE_AND_DELETE).await?;
        Ok(Documented {
            connection,
            ttl: venue.ttl_ms(),
            key: venue.key.into_bytes(),
            tokens: Tokens::of(venue.client),
            script,
        })
    }

    /// Takes the lock if nobody has it.
    pub async fn try_once(&mut self) -> Result<bool> {
        let token = self.tokens.latest();
        let words: [&[u8]; 6] = [b"SET", &self.key, token, b"NX", b"PX", &self.ttl];
        Ok(!self.connection.call(&words).await?.is_nil())
    }

    /// Lets go of it.
    pub async fn release(&mut self) -> Result<()> {
        let token = self.tokens.latest();
        let words: [&[u8]; 5] = [b"EVALSHA", &self.script, b"1", &self.key, token];
        self.connection.call(&words).await?;
        Ok(())
    }
}
