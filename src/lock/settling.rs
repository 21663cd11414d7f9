//! What lives only while something is being settled.

use std::collections::VecDeque;
use std::rc::Rc;

use super::name::Name;

/// What is still to be looked at before a command or a tick is over. Nothing of it outlives that.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// Locks with a queue in which others may be granted something now.
    pub moved_up: Vec<Name>,
    /// Who has come to share which lock that has a queue, and waits for something.
    pub joined: VecDeque<(Name, Rc<[u8]>)>,
}

impl Settling {
    /// Is nothing left?
    #[cfg(test)]
    pub fn is_over(&self) -> bool {
        self.moved_up.is_empty() && self.joined.is_empty()
    }
}
