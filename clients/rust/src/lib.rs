//! Locks for redis-rs's async connections, on the native commands of the redis-lock module for Redis and Valkey. Who
//! waits stands in a queue in the server, and is served in order; no polling for a free lock, and no Lua.
//!
//! ```no_run
//! use redis::cmd;
//! use redis_lock_client::{Error, Lock};
//! use std::time::Duration;
//!
//! # async fn market() -> Result<(), Error> {
//! let client = redis::Client::open("redis://127.0.0.1/")?;
//! let connection = client.get_multiplexed_async_connection().await?;
//! let market = Lock::new(connection, "market").ttl(Duration::from_secs(10));
//!
//! let hold = market.acquire_within(Duration::from_secs(5)).await?;
//! let _: () = hold.guard(cmd("SET").arg("price").arg(5)).await?; // runs only while the lock is held
//! hold.while_held(send_mail(hold.fence())).await?; // dropped in the middle if the lock is lost
//! hold.release().await?; // or drop it
//! # Ok(())
//! # }
//! # async fn send_mail(_: u64) {}
//! ```
//!
//! # One connection for all
//!
//! A connection of redis-rs is shared by all the tasks that have a clone of it, so nobody blocks it: a waiter keeps a
//! place in the queue (`QUEUE`), and asks for it again at a third of its [lease](Lock::lease). It learns that it is its
//! turn by asking every [100 ms](Lock::pause), or at once by a message, if the connection speaks RESP3 and has an
//! [`Inbox`].
//!
//! # Giving up
//!
//! Each request is made in a task of its own. Whoever drops the future of [`Lock::acquire`], at any of its awaits, or a
//! [`Hold`], leaves the rest to that task: it hears out what is under way, and says `LOCK.RELEASE`. What can't be said
//! (the process is killed, its runtime ends, the server does not reply) ends with the [ttl](Lock::ttl) of the hold, or
//! with the lease of the place. These tasks are tokio's: without its runtime a request panics.
//!
//! # Broken connections
//!
//! Requests, renewals and releases are sent again, with the same owner, for some 3 seconds. A
//! `MultiplexedConnection` stays broken all the same: use a `ConnectionManager`, which connects anew. redis-rs gives
//! the server 500 ms to reply, unless a connection is made with more.

mod ask;
mod error;
mod hold;
mod inbox;
mod keeper;
mod lock;
mod words;

pub use ask::Connection;
pub use error::Error;
pub use hold::Hold;
pub use inbox::Inbox;
pub use lock::Lock;
