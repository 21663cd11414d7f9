//! The words that all rooms of the core use, to be imported from one place.

pub use crate::lock::fence::Fence;
pub use crate::lock::limits::Limits;
pub use crate::lock::lock::{Hold, Mode};
pub use crate::lock::name::{Db, Name, NameRef};
pub use crate::lock::print::{Group, Print, Secret, group_of};
pub use crate::lock::request::{
    Acquired, AskedBy, Asker, Lease, NotALock, Notify, Patience, Refusal, Request, Terms,
};
pub use crate::lock::slot::{Slot, Slots};
pub use crate::lock::time::{Ahead, LAST_MS, Ms, Now, after, earlier, is_over};
pub use crate::lock::waiting::waits::Ticket;
