use crate::client::Client;
use crate::keeper::{Request, keep};
use crate::options;
use crate::owner::Owner;
use crate::words::{Mode, Words};
use crate::{Connection, Error, Hold, Inbox};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// A lock, or several that are held together, and how it is to be held. Each [`acquire`](Lock::acquire) is a request
/// of its own, so one of these serves any number of tasks, by one connection.
///
/// It is made by [`Locks::lock`](crate::Locks::lock), or for a connection of one's own by [`Lock::new`]. An option that
/// makes no sense (a ttl of zero, a limit of zero) is refused by each way to acquire it, as [`Error::Invalid`], before
/// anything is sent.
#[derive(Clone)]
pub struct Lock<C> {
    pub(crate) client: Client<C>,
    pub(crate) ttl: Duration,
    pub(crate) renew_for: Duration,
    pub(crate) lease: Option<Duration>,
    pub(crate) pause: Option<Duration>,
    pub(crate) inbox: Option<Inbox>,
    pub(crate) owner: Owner,
}

impl<C: Connection> Lock<C> {
    /// The lock of this name. redis-rs adds no prefix: name the whole key.
    ///
    /// A waiter asks for it over and over, unless it is [told](Lock::told_by). Clone it rather than to make it
    /// again: clones share what is known of the server.
    pub fn new(connection: C, name: impl AsRef<[u8]>) -> Lock<C> {
        Lock::all(connection, [name])
    }

    /// All of these are held in one instant, or none. In a cluster they need a common part in braces.
    pub fn all(connection: C, names: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Lock<C> {
        Lock::of(Client {
            connection,
            words: Words::new(names),
            known: Arc::default(),
            beside: None,
            requires_module: false,
        })
    }

    pub(crate) fn of(client: Client<C>) -> Lock<C> {
        Lock {
            client,
            ttl: Duration::from_secs(30),
            renew_for: Duration::MAX,
            lease: None,
            pause: None,
            inbox: None,
            owner: Owner::Process,
        }
    }

    /// How long a hold lasts after it was granted, or last renewed: so long the lock is not free when its process has
    /// died. 30 seconds, unless it is said.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Lock<C> {
        self.ttl = ttl;
        self
    }

    /// Stops renewing so long after the grant: a task that hangs does not hold the lock indefinitely. With
    /// `Duration::ZERO` a hold is never renewed. Without a word it is renewed for as long as it lives, at a third of
    /// the ttl.
    #[must_use]
    pub fn renew_for(mut self, cap: Duration) -> Lock<C> {
        self.renew_for = cap;
        self
    }

    /// Shares the lock with others who also share it. Needs the module.
    #[must_use]
    pub fn shared(mut self) -> Lock<C> {
        self.client.words.mode = Mode::Shared;
        self
    }

    /// Shares the lock while fewer than `n` others do: a semaphore. Needs the module.
    #[must_use]
    pub fn limit(mut self, n: u64) -> Lock<C> {
        self.client.words.mode = Mode::Limit(n);
        self
    }

    /// With a [limit](Lock::limit): the group of the request, a tenant say. Of the groups that wait, the one that holds
    /// the fewest is served next. It precedes the owner, and has no colon.
    #[must_use]
    pub fn fair(mut self, group: impl AsRef<[u8]>) -> Lock<C> {
        self.client.words.fair = Some(group.as_ref().to_vec());
        self
    }

    /// With [`fair`](Lock::fair): a group holds at most `m`.
    #[must_use]
    pub fn per(mut self, m: u64) -> Lock<C> {
        self.client.words.per = Some(m);
        self
    }

    /// Acquires and renews it only if `n` replicas have acknowledged that; otherwise there is the server's error
    /// `NOREPLICAS`, and nothing is left. Without the module by `WAIT`, for a second at most. By default the server's
    /// `lock.replicas` says how many.
    ///
    /// It takes connections of its own, which only [`Locks`](crate::Locks) can open.
    #[must_use]
    pub fn replicas(mut self, n: u64) -> Lock<C> {
        self.client.words.replicas = Some(n);
        self
    }

    /// Does not wait behind `n` others or more: the server's error `QUEUEFULL` comes at once. Needs the module.
    #[must_use]
    pub fn max_queue(mut self, n: u64) -> Lock<C> {
        self.client.words.max_queue = Some(n);
        self
    }

    /// Refuses a server that has not loaded the module, with [`Error::NeedsModule`], instead of using what every server
    /// can do: for who relies on the order of the waiters or on the [fencing token](Hold::fence).
    #[must_use]
    pub fn require_module(mut self) -> Lock<C> {
        self.client.requires_module = true;
        self
    }

    /// For how long a place in the queue is kept after it was last asked for; it is asked for at a third of it at the
    /// latest. 15 seconds where the server says when it is our turn, and else 3, unless it is said,
    /// and at most the server's `lock.max-place-ttl`.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Lock<C> {
        self.lease = Some(lease);
        self
    }

    /// The longest pause between two questions while waiting, where no message says when. The first pauses are shorter,
    /// from 10 ms on. 100 ms, and 1 second on a server without the module, unless it is said.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Lock<C> {
        self.pause = Some(pause);
        self
    }

    /// Waits for a message instead of asking over and over. The inbox is that of this very connection, or of another
    /// one to the same server.
    #[must_use]
    pub fn told_by(mut self, inbox: &Inbox) -> Lock<C> {
        self.inbox = Some(inbox.clone());
        self
    }

    /// The owner, instead of a fresh `host:pid:uuid` for each request: one token for all the locks that one piece of work takes one
    /// after the other, so that the server sees when two such would wait for each other ([`Error::Deadlock`]).
    ///
    /// To the lock, two tasks with one owner are one, and both would hold it. And an owner is spent when
    /// it has released or given up a lock: for the next attempt at that lock make a new one.
    #[must_use]
    pub fn owner(mut self, owner: impl AsRef<[u8]>) -> Lock<C> {
        self.owner = Owner::Given(owner.as_ref().to_vec());
        self
    }

    /// What the owner of each request begins with, before a colon and a UUID, instead of `host:pid`: it says in
    /// `LOCK.INFO` and `LOCK.LOG` who holds the lock.
    #[must_use]
    pub fn owner_prefix(mut self, prefix: impl AsRef<[u8]>) -> Lock<C> {
        self.owner = Owner::Prefixed(prefix.as_ref().to_vec());
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
    ///
    /// If the server does not answer, this returns all the same, half a second later at the latest.
    pub async fn acquire_within(&self, patience: Duration) -> Result<Hold<C>, Error> {
        if patience.is_zero() {
            return self.try_acquire().await;
        }
        // None: so far away that it never comes.
        let until = Instant::now().checked_add(patience);
        self.request(until.map_or(Patience::Endless, Patience::Until)).await
    }

    /// Tries once. A try overtakes no waiter. The server has half a second to answer, with `replicas` two.
    pub async fn try_acquire(&self) -> Result<Hold<C>, Error> {
        self.request(Patience::Once).await
    }

    /// The request is made in a task of its own, which hears it out when its caller has gone.
    async fn request(&self, patience: Patience) -> Result<Hold<C>, Error> {
        options::check(self)?;
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let owner = self.owner.of_group(self.client.words.fair.as_deref());
        let end = match patience {
            Patience::Once => Some(Instant::now()),
            Patience::Until(end) => Some(end),
            Patience::Endless => None,
        };
        let (asker, outcome) = oneshot::channel();
        runtime.spawn(keep(Request::new(self.clone(), owner, patience), asker));
        let outcome = async { outcome.await.unwrap_or(Err(Error::NoRuntime)) };
        let replies_take = match self.client.words.wait_for_replicas() {
            true => REPLICAS_TAKE,
            false => REPLIES_TAKE,
        };
        match end.and_then(|end| end.checked_add(replies_take)) {
            Some(limit) => {
                timeout_at(limit, outcome).await.unwrap_or_else(|_| Err(Error::unanswered()))
            }
            None => outcome.await,
        }
    }
}

/// How long a reply to the last question may take when the patience is over, or a lock is lost.
pub(crate) const REPLIES_TAKE: Duration = Duration::from_millis(500);

/// The same if it comes when replicas have acknowledged something.
const REPLICAS_TAKE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
pub(crate) enum Patience {
    Once,
    Until(Instant),
    Endless,
}
