//! Those who wait no more, and have yet to be taken out of their queues.

use std::rc::Rc;

use crate::lock::name::Name;
use crate::lock::queue::ticket::Ticket;

/// Out of so many queues a waiter is taken at once, if nothing else is set.
pub const FEW_QUEUES: usize = 16;

/// A waiter that waits no more, and still stands in some of its queues.
#[derive(Debug)]
pub struct Leaving {
    pub ticket: Ticket,
    pub names: Rc<[Name]>,
    /// It has left those before this one.
    pub next: usize,
}
