//! Locks for redis-rs's async connections, on the native commands of the redis-lock module for Redis and Valkey. Who
//! waits stands in a queue in the server, and is served in order. Without the module the same locks work on any Redis
//! from 6.2 on and on any Valkey, with less: see [below](#without-the-module).
//!
//! ```no_run
//! use redis_lock_module::redis::cmd;
//! use redis_lock_module::{Error, Locks};
//! use std::time::Duration;
//!
//! # async fn market() -> Result<(), Error> {
//! let locks = Locks::connect("redis://127.0.0.1/").await?; // once in a process
//! let market = locks.lock("market").ttl(Duration::from_secs(10));
//!
//! let hold = market.acquire_within(Duration::from_secs(5)).await?;
//! let _: () = hold.guard(cmd("SET").arg("price").arg(5)).await?; // runs only while the lock is held
//! hold.while_held(set_price(5, hold.fence())).await?; // dropped in the middle if the lock is lost
//! hold.release().await?; // or drop it
//! # Ok(())
//! # }
//! # async fn set_price(_: i32, _: Option<u64>) {}
//! ```
//!
//! The number ([`Hold::fence`]) is for what lives elsewhere, and what remembers it can refuse a holder that is late: in
//! SQL by `UPDATE items SET price = $1, fence = $2 WHERE name = 'sword' AND fence <= $2`.
//!
//! # One connection for all
//!
//! A connection of redis-rs is shared by all the tasks that have a clone of it, so none of them blocks it: a waiter
//! keeps a place in the queue (`QUEUE`), and asks for it again at a third of its [lease](Lock::lease). That it is its
//! turn it hears by a message, at once. [`Locks`] see to that. With a connection of one's own ([`Lock::new`]) a waiter
//! has to ask over and over, every [100 ms](Lock::pause) in the end, unless that connection has an [`Inbox`]: each
//! handoff then takes as long.
//!
//! # Without the module
//!
//! A server that does not know `LOCK.ACQUIRE` is asked by `SET NX PX`: the same key, value and expiry, so that clients
//! with and without the module exclude each other, and it can be loaded or unloaded while locks are held. Waiters then
//! poll, every second in the end and in no order, and [`Hold::fence`] is None. Shared locks, limits, and several locks
//! at once are not to be had ([`Error::NeedsModule`]). Release and renewal are `DELEX`, `DELIFEQ` or `SET IFEQ` where
//! the server has them, else scripts; [`Hold::guard`] is a script. `WATCH` is not used, because it would watch for all
//! the tasks that share the connection. The server is asked for the module again after 5 seconds. One line is logged.
//! If you rely on the order or on the number, say [`require_module`](Lock::require_module).
//!
//! # Replicas
//!
//! With [`replicas`](Lock::replicas) a lock is acquired, and renewed, only if so many replicas have acknowledged that.
//! What waits for them goes over connections of its own, which [`Locks`] open.
//!
//! # Giving up
//!
//! Each request is made in a task of its own. If the future of [`Lock::acquire`] is dropped, at any of its awaits, or a
//! [`Hold`], the rest is left to that task: it hears out what is under way, and releases. What can't be said (the
//! process is killed, its runtime ends, the server does not reply) ends with the [ttl](Lock::ttl) of the hold, or with
//! the lease of the place. These tasks are tokio's: without its runtime there is [`Error::NoRuntime`].
//!
//! # Broken connections
//!
//! Requests, renewals and releases are sent again, with the same owner, for some seconds (10 at most), and a release in the
//! background until the hold has expired. [`Lock::acquire_within`] and [`Lock::try_acquire`] return in time all the
//! same. redis-rs gives the server 500 ms to reply, unless a connection is made with more. A `MultiplexedConnection`
//! stays broken: the `ConnectionManager` of [`Locks`] connects anew.

mod ask;
mod beside;
mod client;
mod error;
mod hold;
mod inbox;
mod keeper;
mod known;
mod latest;
mod lock;
mod locks;
mod loss;
mod options;
mod owner;
mod pauses;
mod plain;
mod term;
mod words;

pub use ask::Connection;
pub use error::Error;
pub use hold::Hold;
pub use inbox::Inbox;
pub use lock::Lock;
pub use locks::Locks;
pub use loss::{Cause, Loss};
pub use redis;
