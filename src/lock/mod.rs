//! The rules of the lock. Nothing here knows a server: the keys stand behind [`Keyspace`], time is
//! an argument, and whoever must be answered is named to the caller.
//!
//! A lock is held when its key stores a hold that is not over ([`Stored`]). Everybody else waits in
//! the lock's line. [`Locks::settle`](locks::Locks) is the one function that brings the two
//! together, and it is the answer to whatever happened to the key.

mod acquire;
mod fencing;
mod keyspace;
mod ledger;
mod line;
mod locks;
mod name;
mod release;
mod report;
mod room;
mod settle;
pub mod slot;
mod tick;
mod time;
mod waiter;
mod waiting;

#[cfg(test)]
mod tests;

pub use acquire::{Acquired, Patience, Request};
pub use fencing::Epoch;
pub use keyspace::{Keyspace, LONGEST_OWNER, SHARED_MARKER, Stored};
pub use ledger::Secret;
pub use locks::{Locks, NotALock, Turn};
pub use name::{Db, Name, NameRef};
pub use report::{Grant, Holder, Left, Report, Waiting};
pub use room::give_back_room;
pub use time::{LAST_MS, Ms, Now};
pub use waiter::{Answer, Ticket};
pub use waiting::End;
