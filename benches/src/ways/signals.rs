//! Ways that wait for a signal and then try again: others may be faster.

use super::*;

/// Puts one element into an emptied list, so one waiter wakes. The element ends after a second, so that it is not there
/// for a client that comes much later.
const PUSH: &str = "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 1
end
redis.call('DEL', KEYS[2])
redis.call('LPUSH', KEYS[2], 1)
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('DEL', KEYS[1])
return 0";

/// python-redis-lock's way: SET NX EX, and a list beside it on which waiters block. When a hold expires, nothing is
/// pushed: a waiter then learns of it when its BLPOP has lasted as long as a hold may.
pub struct Blpop {
    connection: Connection,
    key: String,
    ttl: u64,
    tokens: Tokens,
    script: String,
}

impl Way for Blpop {
    const NAME: &'static str = "SET NX, BLPOP signal";

    async fn connect(venue: Venue) -> Result<Self> {
        let mut connection = Connection::open(venue.address).await?;
        let script = connection.load(PUSH).await?;
        Ok(Blpop {
            connection,
            ttl: venue.ttl.as_secs().max(1),
            key: venue.key,
            tokens: Tokens::of(venue.client),
            script,
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        let (key, token, ttl) = (&self.key, &self.tokens.latest, self.ttl);
        let set = format!("SET {key} {token} NX EX {ttl}");
        let wait = format!("BLPOP signal:{key} {ttl}");
        while self.connection.call(&set).await?.is_nil() {
            self.connection.call(&wait).await?;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let (script, key, token) = (&self.script, &self.key, &self.tokens.latest);
        let push = format!("EVALSHA {script} 2 {key} signal:{key} {token} 1000");
        self.connection.call(&push).await?;
        Ok(())
    }
}

impl Connected for Blpop {
    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

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

/// Redisson's way: the lock is a hash, a release publishes, waiters subscribe and try again.
///
/// A client whose first try fails subscribes, tries once more (the release may have been in between), and then waits
/// for a message, at most for as long as the hold still lasts; and again. Here each client is a process of its own, as
/// workers on many machines are, so each release is told to all that wait. (Redisson wakes one thread of each process.)
pub struct PubSub {
    connection: Connection,
    ear: Ear,
    key: String,
    ttl: u128,
    tokens: Tokens,
    acquire: String,
    release: String,
}

impl PubSub {
    /// How long to wait if the lock is taken.
    async fn try_once(&mut self) -> Result<Option<Duration>> {
        let (script, key, ttl) = (&self.acquire, &self.key, self.ttl);
        let acquire = format!("EVALSHA {script} 1 {key} {ttl} {}", self.tokens.latest);
        Ok(match self.connection.call(&acquire).await? {
            Answer::Number(ms) => Some(Duration::from_millis(ms.try_into().unwrap_or(0))),
            _ => None,
        })
    }
}

impl Way for PubSub {
    const NAME: &'static str = "pub/sub wake";
    const CONNECTIONS: usize = 2;

    async fn connect(venue: Venue) -> Result<Self> {
        let channel = format!("channel:{}", venue.key);
        let mut connection = Connection::open(venue.address).await?;
        Ok(PubSub {
            ear: Ear::connect(venue.address, channel).await?,
            acquire: connection.load(ACQUIRE).await?,
            release: connection.load(RELEASE).await?,
            connection,
            ttl: venue.ttl_ms(),
            key: venue.key,
            tokens: Tokens::of(venue.client),
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        if self.try_once().await?.is_none() {
            return Ok(());
        }
        self.ear.open().await?;
        while let Some(left) = self.try_once().await? {
            let time_is_up = async {
                sleep(left).await;
                Ok(())
            };
            let told = async { self.ear.hear().await.map(drop) };
            future::or(told, time_is_up).await?;
        }
        self.ear.close().await
    }

    async fn release(&mut self) -> Result<()> {
        let (script, key, token) = (&self.release, &self.key, &self.tokens.latest);
        let release = format!("EVALSHA {script} 2 {key} channel:{key} 0 {} {token}", self.ttl);
        self.connection.call(&release).await?;
        Ok(())
    }
}

impl Connected for PubSub {
    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}
