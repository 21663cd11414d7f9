use crate::keeper::{Request, keep};
use crate::words::{Mode, Words};
use crate::{Connection, Error, Hold, Inbox};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

/// A lock, or several that are held together, and how it is to be held. Each [`acquire`](Lock::acquire) is a request
/// of its own, so one of these serves any number of tasks, by one connection.
#[derive(Clone)]
pub struct Lock<C> {
    pub(crate) connection: C,
    pub(crate) words: Words,
    pub(crate) ttl: Duration,
    pub(crate) renew_for: Duration,
    pub(crate) lease: Duration,
    pub(crate) pause: Duration,
    pub(crate) inbox: Option<Inbox>,
    pub(crate) owner: Option<Vec<u8>>,
}

impl<C: Connection> Lock<C> {
    /// The lock of this name. redis-rs adds no prefix: name the whole key.
    pub fn new(connection: C, name: impl AsRef<[u8]>) -> Lock<C> {
        Lock::all(connection, [name])
    }

    /// All of these are held in one instant, or none. In a cluster they need a common part in braces.
    pub fn all(connection: C, names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Lock<C> {
        Lock {
            connection,
            words: Words::new(names),
            ttl: Duration::from_secs(30),
            renew_for: Duration::MAX,
            lease: Duration::from_secs(3),
            pause: Duration::from_millis(100),
            inbox: None,
            owner: None,
        }
    }

    /// How long a hold lasts after it was granted, or last renewed: so long the lock is not free when its process has
    /// died. 30 seconds, unless it is said.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Lock<C> {
        self.ttl = ttl;
        self
    }

    /// Stops renewing so long after the grant: a task that hangs does not hold the lock for ever. With
    /// `Duration::ZERO` a hold is never renewed. Without a word it is renewed for as long as it lives, at a third of
    /// the ttl.
    #[must_use]
    pub fn renew_for(mut self, cap: Duration) -> Lock<C> {
        self.renew_for = cap;
        self
    }

    /// Shares the lock with others who also share it.
    #[must_use]
    pub fn shared(mut self) -> Lock<C> {
        self.words.mode = Mode::Shared;
        self
    }

    /// Shares the lock while fewer than `n` others do: a semaphore.
    #[must_use]
    pub fn limit(mut self, n: u64) -> Lock<C> {
        self.words.mode = Mode::Limit(n);
        self
    }

    /// For how long a place in the queue is kept after it was last asked for; it is asked for at a third of it at the
    /// latest. 3 seconds, unless it is said; `lock.max-lease` of the server is the most.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Lock<C> {
        self.lease = lease;
        self
    }

    /// How often to ask while waiting, where no message says when. 100 ms, unless it is said.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Lock<C> {
        self.pause = pause;
        self
    }

    /// Waits for a message instead of asking over and over. The inbox is that of this very connection, or of another
    /// one to the same server.
    #[must_use]
    pub fn told_by(mut self, inbox: &Inbox) -> Lock<C> {
        self.inbox = Some(inbox.clone());
        self
    }

    /// The owner, instead of a fresh one for each request: one token for all the locks that one piece of work takes one
    /// after the other, so that the server sees when two such would wait for each other ([`Error::Deadlock`]).
    ///
    /// To the lock, two tasks with one owner are one, and both are told that they hold it. And an owner is spent when
    /// it has released or given up a lock: for the next attempt at that lock make a new one.
    #[must_use]
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Lock<C> {
        self.owner = Some(owner.as_ref().to_vec());
        self
    }

    /// Waits for the lock, in order of arrival, for as long as it takes.
    ///
    /// It waits by `QUEUE`: the connection goes on serving everybody else. Drop the future at any moment, and nothing
    /// is left behind.
    pub async fn acquire(&self) -> Result<Hold<C>, Error> {
        self.request(Patience::Endless).await
    }

    /// Waits for so long at most, then says [`Error::Busy`]. With `Duration::ZERO` it tries once.
    pub async fn acquire_within(&self, patience: Duration) -> Result<Hold<C>, Error> {
        if patience.is_zero() {
            return self.try_acquire().await;
        }
        // None: so far away that it never comes.
        let until = Instant::now().checked_add(patience);
        self.request(until.map_or(Patience::Endless, Patience::Until))
            .await
    }

    /// Tries once. A try overtakes nobody who waits.
    pub async fn try_acquire(&self) -> Result<Hold<C>, Error> {
        self.request(Patience::Once).await
    }

    /// The request is made in a task of its own, which hears it out when nobody waits for it any more.
    async fn request(&self, patience: Patience) -> Result<Hold<C>, Error> {
        let owner = self.owner.clone();
        let owner = owner.unwrap_or_else(|| Uuid::new_v4().simple().to_string().into_bytes());
        let (asker, outcome) = oneshot::channel();
        tokio::spawn(keep(Request::new(self.clone(), owner, patience), asker));
        outcome.await.unwrap_or(Err(Error::Busy)) // the runtime has ended
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Patience {
    Once,
    Until(Instant),
    Endless,
}
