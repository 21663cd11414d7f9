//! Waiters that have stopped waiting, and are yet to be removed from some of their queues.

use std::rc::Rc;

use crate::lock::name::Name;
use crate::lock::waiting::queue::ticket::Ticket;

/// A waiter in up to this many queues is removed from all of them at once, if nothing else is set.
pub const FEW_QUEUES: usize = 16;

/// A waiter that has stopped waiting and is still in some of its queues.
#[derive(Debug)]
pub struct Leaving {
    pub ticket: Ticket,
    pub names: Rc<[Name]>,
    /// It has left the queues of the names before this index.
    pub next: usize,
}
