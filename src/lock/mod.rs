//! The rules of the lock. Nothing here knows a server: the keys stand behind [`Keyspace`], time is
//! an argument, and whoever must be replied to is named to the caller.
//!
//! A lock is held when its key stores a hold that is not over ([`Stored`]). Everybody else waits in
//! the lock's queue. [`Locks::settle`](locks::Locks) is the one function that brings the two
//! together, and it is what follows whatever happened to the key.

mod acquire;
mod backlog;
mod breaking;
mod budget;
mod by_owner;
mod check;
mod databases;
mod deadlock;
mod due;
mod fence;
mod hashing;
mod keyspace;
mod leave;
mod ledger;
mod limits;
mod locks;
mod log;
mod look;
mod losses;
mod name;
mod outbox;
mod place;
mod queue;
mod release;
mod renew;
mod report;
mod request;
mod reserve;
mod returns;
mod room;
mod rules;
mod settle;
mod settling;
pub mod slot;
mod state;
mod stats;
mod step;
mod take_back;
mod time;
mod wait;
mod wall;
mod withdraw;

#[cfg(test)]
mod tests;

pub use breaking::{Break, NotBroken};
#[cfg(test)]
pub use deadlock::found::Link;
pub use deadlock::found::{Claim, Deadlock};
pub use fence::{Epoch, SlotState};
pub use keyspace::{
    Glance, Keyspace, LONGEST_OWNER, LockEvent, Over, SHARED_MARKER, Share, Stored,
};
pub use ledger::print::Secret;
pub use limits::{Limits, MOST_QUEUES, MOST_SHARERS};
pub use locks::{Gone, Locks};
pub use log::line::{Comeback, Cut, Line, Reason};
pub use losses::HolderNow;
pub use name::{Db, Name, NameRef};
pub use outbox::{Lapse, Message};
pub use queue::ticket::{ByTicket, Ticket};
pub use queue::waiter::WaitOutcome;
pub use report::{Grant, Holder, Left, QueuedWaiter, Report};
pub use request::{
    Acquired, AskedBy, Asker, Hold, Lease, Mode, NotALock, Notify, Patience, Refusal, Request,
};
pub use room::give_back_room;
pub use state::Turn;
pub use time::{Ahead, LAST_MS, Ms, Now, from_wall, to_wall};
pub use wait::End;
