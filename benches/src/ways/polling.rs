//! The lock that the documentation of SET shows: SET NX with an expiry, and a script that compares the token and deletes.

use super::*;

/// Deletes the lock if it is the caller's: nearly every library has it.
pub const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
end
return 0";

/// Tried again every so many milliseconds. With 100 this is what redis-py's Lock does by default; 1 and 10 are common in
/// code of one's own.
pub struct Polling<const MS: u64> {
    connection: Connection,
    key: String,
    tokens: Tokens,
    ttl: u128,
    script: String,
}

impl<const MS: u64> Way for Polling<MS> {
    const NAME: &'static str = match MS {
        1 => "poll every 1 ms",
        10 => "poll every 10 ms",
        _ => "poll every 100 ms",
    };

    async fn connect(venue: Venue) -> Result<Self> {
        let mut connection = Connection::open(venue.address).await?;
        let script = connection.load(COMPARE_AND_DELETE).await?;
        Ok(Polling {
            connection,
            ttl: venue.ttl_ms(),
            key: venue.key,
            tokens: Tokens::of(venue.client),
            script,
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        let (key, token, ttl) = (&self.key, &self.tokens.latest, self.ttl);
        let set = format!("SET {key} {token} NX PX {ttl}");
        while self.connection.call(&set).await?.is_nil() {
            sleep(Duration::from_millis(MS)).await;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let (script, key, token) = (&self.script, &self.key, &self.tokens.latest);
        let delete = format!("EVALSHA {script} 1 {key} {token}");
        self.connection.call(&delete).await?;
        Ok(())
    }
}

impl<const MS: u64> Connected for Polling<MS> {
    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
