//! This project's ways, and the server's own that is nearest to them.

use super::*;

/// LOCK.ACQUIRE with BLOCK, and LOCK.RELEASE.
pub struct Module {
    connection: Connection,
    key: String,
    ttl: u128,
    tokens: Tokens,
}

impl Module {
    /// The lock's name and its owner, for LOCK.GUARD.
    pub fn owner(&self) -> String {
        format!("{} {}", self.key, self.tokens.latest)
    }
}

impl Way for Module {
    const NAME: &'static str = "LOCK";
    const WITH: With = With::Module;

    async fn connect(venue: Venue) -> Result<Self> {
        Ok(Module {
            connection: Connection::open(venue.address).await?,
            ttl: venue.ttl_ms(),
            key: venue.key,
            tokens: Tokens::of(venue.client),
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.tokens.renew();
        let acquire = format!("LOCK.ACQUIRE {} {} BLOCK 0", self.owner(), self.ttl);
        let fence = self.connection.call(&acquire).await?.number()?;
        ensure!(fence > 0, "LOCK.ACQUIRE answered {fence}");
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let release = format!("LOCK.RELEASE {}", self.owner());
        let released = self.connection.call(&release).await?.number()?;
        ensure!(released == 1, "LOCK.RELEASE answered {released}");
        Ok(())
    }
}

impl Connected for Module {
    fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// A list with one element: a client that has taken it out has the lock, and puts it back.
///
/// No owner, no expiry: a holder that dies takes the element with it. So it is no lock to use, but it is the fastest
/// hand-over that the server itself has: BLPOP serves in order, one waiter for each push.
pub struct TokenList {
    connection: Connection,
    key: String,
}

impl Way for TokenList {
    const NAME: &'static str = "bare BLPOP";

    async fn connect(venue: Venue) -> Result<Self> {
        let mut connection = Connection::open(venue.address).await?;
        let key = venue.key;
        if venue.client == 0 {
            connection.call(&format!("RPUSH {key} 1")).await?;
        }
        Ok(TokenList { connection, key })
    }

    async fn acquire(&mut self) -> Result<()> {
        let pop = format!("BLPOP {} 0", self.key);
        self.connection.call(&pop).await?;
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        let push = format!("RPUSH {} 1", self.key);
        self.connection.call(&push).await?;
        Ok(())
    }
}

/// A task that keeps a place in the queue, over a connection that others use too.
struct Place {
    connection: Shared,
    tokens: Tokens,
    key: String,
    ttl: u128,
    lease: u128,
}

impl Place {
    /// It is kept for so long after the task has asked.
    async fn connect(venue: &Venue, lease: Duration) -> Result<Place> {
        Ok(Place {
            connection: venue.process.connection().await?,
            tokens: Tokens::of(venue.client),
            key: venue.key.clone(),
            ttl: venue.ttl_ms(),
            lease: lease.as_millis(),
        })
    }

    /// Asks, and says whether the lock is held now. `NOTIFY` says how it is to be told.
    async fn ask(&mut self, notify: &str) -> Result<bool> {
        let (key, token, ttl, lease) = (&self.key, &self.tokens.latest, self.ttl, self.lease);
        let ask = format!("LOCK.ACQUIRE {key} {token} {ttl} QUEUE {lease} {notify}");
        let fence_or_place = self.connection.lock().await.call(&ask).await?.number()?;
        Ok(fence_or_place > 0)
    }

    async fn release(&mut self) -> Result<()> {
        let release = format!("LOCK.RELEASE {} {}", self.key, self.tokens.latest);
        let released = self.connection.lock().await.call(&release).await?.number()?;
        ensure!(released == 1, "LOCK.RELEASE answered {released}");
        Ok(())
    }
}

/// LOCK.ACQUIRE … QUEUE … NOTIFY: a message tells each task that it is its turn.
pub struct Notified {
    place: Place,
    listener: Listener,
}

impl Way for Notified {
    const NAME: &'static str = "QUEUE with NOTIFY";
    const WITH: With = With::Module;

    async fn connect(venue: Venue) -> Result<Self> {
        let message = venue.client.to_string();
        Ok(Notified {
            place: Place::connect(&venue, Duration::from_secs(30)).await?,
            listener: venue.process.listener(message).await?,
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.place.tokens.renew();
        let notify = format!("NOTIFY {}", self.listener.address());
        while !self.place.ask(&notify).await? {
            // A message may be lost: it asks by itself, well before its place is given up.
            let again = sleep(Duration::from_secs(10));
            future::or(self.listener.told(), again).await;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.place.release().await
    }
}

/// LOCK.ACQUIRE … QUEUE without messages: each task asks again after 50 to 150 ms, as a client does that comes over HTTP.
pub struct Asking {
    place: Place,
    chance: RandomState,
    asked: u64,
}

impl Way for Asking {
    const NAME: &'static str = "QUEUE, asks every 100 ms";
    const WITH: With = With::Module;

    async fn connect(venue: Venue) -> Result<Self> {
        Ok(Asking {
            place: Place::connect(&venue, Duration::from_secs(5)).await?,
            chance: RandomState::new(),
            asked: 0,
        })
    }

    async fn acquire(&mut self) -> Result<()> {
        self.place.tokens.renew();
        while !self.place.ask("").await? {
            self.asked += 1;
            let more = self.chance.hash_one(self.asked) % 100_000;
            sleep(Duration::from_micros(50_000 + more)).await;
        }
        Ok(())
    }

    async fn release(&mut self) -> Result<()> {
        self.place.release().await
    }
}
