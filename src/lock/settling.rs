//! What lives only while something is being settled.

use std::collections::VecDeque;
use std::rc::Rc;

use super::name::Name;

/// What is still to be looked at before a command or a tick is over. Nothing of it outlives that.
/// Mostly there is nothing, and then it costs nothing.
#[derive(Debug, Default)]
pub(super) struct Settling(Option<Box<Lists>>);

#[derive(Debug, Default)]
struct Lists {
    /// Locks with a queue in which others may be granted something now.
    moved_up: Vec<Name>,
    /// Who has come to share which lock that has a queue, and waits for something.
    joined: VecDeque<(Name, Rc<[u8]>)>,
}

impl Settling {
    /// Others may be granted something in the queues of these locks now.
    pub fn moved_up(&mut self, names: impl IntoIterator<Item = Name>) {
        let mut names = names.into_iter().peekable();
        if names.peek().is_some() {
            self.lists().moved_up.extend(names);
        }
    }

    /// The last of them.
    pub fn next_moved_up(&mut self) -> Option<Name> {
        self.0.as_mut()?.moved_up.pop()
    }

    /// This owner has come to share this lock, and waits for something.
    pub fn joined(&mut self, name: Name, owner: Rc<[u8]>) {
        self.lists().joined.push_back((name, owner));
    }

    /// The first who did so.
    pub fn next_joined(&mut self) -> Option<(Name, Rc<[u8]>)> {
        self.0.as_mut()?.joined.pop_front()
    }

    /// Nobody has come to share anything.
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
