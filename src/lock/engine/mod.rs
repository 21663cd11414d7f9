//! What commands, events and ticks do to locks: they bring together who holds a lock and who waits for it.

pub mod acquire;
pub mod breaking;
pub mod claim;
pub mod events;
mod fair;
pub mod fit;
pub mod grant;
pub mod locks;
pub mod lost;
pub mod outbox;
pub mod outcomes;
mod own_wait;
pub mod recheck;
pub mod records;
pub mod release;
pub mod renew;
pub mod replicas;
pub mod reply;
pub mod report;
pub mod settle;
mod take_back;
pub mod tick;
pub mod wait;
