//! What is still to be settled in this turn.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::lock::name::Name;

/// What is still to be looked at before a command or a tick is over. It is usually empty, and then
/// nothing is allocated.
#[derive(Debug, Default)]
pub(in crate::lock) struct Settling(Option<Box<Lists>>);

#[derive(Debug, Default)]
struct Lists {
    /// Locks in whose queues a waiter may be granted something now.
    moved_up: Vec<Name>,
    /// Owners that wait for something and have just got a share of this lock, which has a queue.
    joined: VecDeque<(Name, Rc<[u8]>)>,
}

impl Settling {
    /// Adds locks in whose queues a waiter may be granted something now.
    pub fn add_moved_up(&mut self, names: impl IntoIterator<Item = Name>) {
        let mut names = names.into_iter().peekable();
        if names.peek().is_some() {
            self.lists().moved_up.extend(names);
        }
    }

    /// Takes the last lock that was added in whose queue a waiter may be granted something.
    pub fn next_moved_up(&mut self) -> Option<Name> {
        self.0.as_mut()?.moved_up.pop()
    }

    /// Adds an owner that waits for something and has just got a share of this lock.
    pub fn add_joined(&mut self, name: Name, owner: Rc<[u8]>) {
        self.lists().joined.push_back((name, owner));
    }

    /// Takes the first owner that was added because it has got a share of a lock.
    pub fn next_joined(&mut self) -> Option<(Name, Rc<[u8]>)> {
        self.0.as_mut()?.joined.pop_front()
    }

    /// Drops all owners that were added because they have got a share of a lock.
    pub fn forget_joined(&mut self) {
        if let Some(lists) = &mut self.0 {
            lists.joined.clear();
        }
    }

    /// Is nothing left?
    #[cfg(test)]
    pub fn is_over(&self) -> bool {
        (self.0.as_ref()).is_none_or(|lists| lists.moved_up.is_empty() && lists.joined.is_empty())
    }

    fn lists(&mut self) -> &mut Lists {
        self.0.get_or_insert_default()
    }
}
