//! The rules of the lock. Nothing here knows a server: the keys stand behind [`Keyspace`], time is
//! an argument, and whoever must be answered is named to the caller.
//!
//! A lock is held when its key stores a hold that is not over ([`Stored`]). Everybody else waits in
//! the lock's line. [`Locks::settle`](locks::Locks) is the one function that brings the two
//! together, and it is the answer to whatever happened to the key.

mod acquire;
mod breaking;
mod by_ticket;
mod circle;
mod counts;
mod databases;
mod fencing;
mod fit;
mod future;
mod histogram;
mod holders;
mod keyed;
mod keyspace;
mod ledger;
mod limits;
mod line;
mod lines;
mod locks;
mod mode;
mod name;
mod packed;
mod places;
mod print;
mod release;
mod remembered;
mod report;
mod room;
mod session;
mod settle;
mod shares;
pub mod slot;
mod standing;
mod steps;
mod stock;
mod table;
mod tick;
mod ties;
mod time;
mod token;
mod waiter;
mod waiting;
mod walk;

#[cfg(test)]
mod tests;

pub use acquire::{Acquired, Patience, Refusal, Request};
pub use breaking::Break;
pub use by_ticket::ByTicket;
#[cfg(test)]
pub use circle::Link;
pub use circle::{Circle, Claim};
pub use fencing::{Epoch, Tenure};
pub use keyspace::{Glance, Happening, Keyspace, LONGEST_OWNER, SHARED_MARKER, Share, Stored};
pub use limits::{Limits, MOST_QUEUES};
pub use locks::{Gone, Lapse, Locks, NotALock};
pub use mode::{Hold, Mode};
pub use name::{Db, Name, NameRef};
pub use print::Secret;
pub use report::{Grant, Holder, Left, Report, Waiting};
pub use room::give_back_room;
pub use standing::Turn;
pub use time::{LAST_MS, Ms, Now};
pub use waiter::{Answer, Ticket};
pub use waiting::End;
