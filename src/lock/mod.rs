//! The rules of the lock. Nothing here knows a server: keys are read and written through
//! [`Keyspace`], time is an argument, and the clients that must get a reply are returned to the caller.
//!
//! A lock is held when its key stores a hold that is not over ([`Stored`]), or while that is missing, because a step
//! of the wall clock has taken it; other requests wait in its queue.
//!
//! | room | what it answers |
//! |---|---|
//! | `lock` | What is a lock? Its modes, who may hold it, and whether a request may have it: the page to read first |
//! | `holds` | Who holds a lock now, by its key and by what is remembered; what a step of the clock does to that |
//! | `waiting` | Who waits, in which order, and when is that to be looked at again |
//! | `deadlock` | Would a request wait for itself? |
//! | `engine` | What does a command, an event or a tick do: [`Locks`] brings the others together |
//!
//! `holds` and `waiting` know nothing of each other. The others stand beside them: `fence` gives the fencing
//! numbers, `log` keeps what was lost, `stats` counts, `turn` is one command or tick with its time and its budget.

mod budget;
mod databases;
mod deadlock;
mod engine;
mod fence;
mod hashing;
mod holds;
mod keyspace;
mod limits;
#[allow(clippy::module_inception, reason = "it is what all of this is about")]
mod lock;
mod log;
mod name;
mod print;
mod request;
mod room;
pub mod slot;
mod stats;
mod time;
mod turn;
mod waiting;
mod words;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub use deadlock::Link;
pub use deadlock::{Claim, Deadlock};
pub use engine::locks::Locks;

pub use engine::reply::End;
pub use engine::report::{Grant, Holder, HolderNow, Left, Report};
pub use fence::{Epoch, SlotState};
pub use hashing::ByNumber;
pub use keyspace::{Glance, Keyspace, LONGEST_OWNER, LockEvent, SHARED_MARKER, Share, Stored};
pub use limits::{MOST_REPLICAS, MOST_SHARERS};
pub use log::entry::{LateUse, LogEntry, Reason, Truncated};
pub(crate) use room::give_back_room;
pub use stats::classes::{Class, MOST_CLASSES};
pub use time::{earlier, from_wall, to_wall};
pub use turn::Turn;
pub use waiting::place::Message;
pub use waiting::report::{QueuedWaiter, USUALLY_NAMED, WaitingGroup};
pub use waiting::waits::waiter::WaitOutcome;
pub use words::{
    Acquired, Ahead, AskedBy, Asker, Db, Hold, LAST_MS, Lease, Limits, Mode, Ms, Name, NameRef,
    NotALock, Notify, Now, Patience, Print, Refusal, Request, Secret, Terms, Ticket,
};
