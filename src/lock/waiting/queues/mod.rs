//! The queues of all locks: in which order requests wait, and when each lock is to be looked at again.

mod calendar;

use std::collections::BTreeSet;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use indexmap::IndexMap;

use crate::lock::hashing::NumberHasher;
use crate::lock::room::give_back_room;
use crate::lock::waiting::queue::Queue;
use crate::lock::waiting::queue::fair::Fair;
use crate::lock::words::{Ms, Name, NameRef, Ticket};

/// The queues of all locks. A lock for which no request waits has none.
#[derive(Debug, Default)]
pub struct Queues {
    by_name: IndexMap<Name, Queue, BuildHasherDefault<NumberHasher>>,
    /// Locks that something has happened to: they are settled in the next tick.
    noted: BTreeSet<Name>,
    /// The other locks with a queue, by when each is to be looked at again.
    alarms: BTreeSet<(Ms, Name)>,
    /// How often many keys may have changed at once.
    changes: u64,
    /// Of how many queues, the first ones, it is not known that they have been settled since.
    unseen: usize,
}

impl Queues {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    #[inline(always)]
    pub fn get(&self, name: NameRef<'_>) -> Option<&Queue> {
        if self.by_name.is_empty() { None } else { self.by_name.get(&name) }
    }

    #[inline]
    pub fn get_mut(&mut self, name: NameRef<'_>) -> Option<&mut Queue> {
        if self.by_name.is_empty() { None } else { self.by_name.get_mut(&name) }
    }

    /// The order of those that wait for this lock with FAIR.
    pub fn fair(&self, name: NameRef<'_>) -> Option<&Fair> {
        self.get(name)?.fair()
    }

    pub fn fair_mut(&mut self, name: NameRef<'_>) -> Option<&mut Fair> {
        self.get_mut(name)?.fair_mut()
    }

    pub fn contains(&self, name: NameRef<'_>) -> bool {
        self.get(name).is_some()
    }

    /// Lets a request join the queue of each of these locks, new if there is none. Returns their names, which share the
    /// keys of the queues. Requests for just one lock share one list with its name.
    pub fn join<'n>(
        &mut self,
        mut names: impl ExactSizeIterator<Item = NameRef<'n>>,
        join: impl Fn(&mut Queue),
    ) -> Rc<[Name]> {
        if names.len() == 1
            && let Some(name) = names.next()
        {
            let (name, queue) = self.open(name);
            join(queue);
            return Rc::clone(queue.single_name.get_or_insert_with(|| Rc::from([name])));
        }
        let stand = |name| {
            let (name, queue) = self.open(name);
            join(queue);
            name
        };
        names.map(stand).collect()
    }

    /// The queue of this lock, new if there is none, and the name with the key as the queue stores it.
    fn open(&mut self, name: NameRef<'_>) -> (Name, &mut Queue) {
        let stored = self.by_name.get_key_value(&name).map(|(stored, _)| stored.clone());
        let name = stored.unwrap_or_else(|| name.keep());
        let queue = self.by_name.entry(name.clone()).or_insert_with(|| {
            let mut queue = Queue::default();
            queue.seen = Some(self.changes);
            queue
        });
        (name, queue)
    }

    /// Closes the queue of this lock, which is empty.
    pub fn close(&mut self, name: NameRef<'_>) {
        if let Some((name, Queue { alarm: Some(at), .. })) = self.by_name.swap_remove_entry(&name) {
            self.alarms.remove(&(at, name));
        }
        self.unseen = self.unseen.min(self.by_name.len());
        give_back_room!(self.by_name);
    }

    /// How many come before this one in the queues of these locks: the most in any of them.
    pub fn before(&self, names: &[NameRef<'_>], ticket: Ticket) -> usize {
        let queues = names.iter().filter_map(|&name| self.get(name));
        queues.map(|queue| queue.before(ticket)).max().unwrap_or_default()
    }

    /// How many alarms are set, and how many locks are to be settled in the next ticks.
    pub fn counts(&self) -> [usize; 2] {
        [self.alarms.len(), self.noted.len().saturating_add(self.unseen)]
    }
}

#[cfg(test)]
impl Queues {
    pub fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.by_name.values()
    }

    /// How many queues are to be looked at again by this time.
    pub fn alarms_up_to(&self, time: Ms) -> usize {
        self.alarms.iter().filter(|&&(at, _)| at <= time).count()
    }

    /// Prints all parts, to be compared.
    pub fn print(&self, to: &mut impl std::fmt::Write) -> std::fmt::Result {
        let Self { by_name, noted, alarms, changes, unseen, .. } = self;
        write!(to, "{by_name:?}{noted:?}{alarms:?}{changes}/{unseen}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::words::{Mode, Secret};

    #[test]
    fn a_queue_is_found_whichever_has_moved_to_its_index() {
        let mut queues = Queues::default();
        let name = |key| NameRef::new(0, key, Secret(1, 2));
        for (ticket, key) in [(1, b"a"), (2, b"b"), (3, b"c")] {
            queues.open(name(key)).1.join(ticket, (Mode::Shared, None), true);
        }
        let first = |queues: &Queues, key| queues.get(name(key)).and_then(Queue::first);
        assert_eq!(first(&queues, b"b"), Some(2));
        assert!(queues.get(name(b"d")).is_none());
        // The last queue moves to the index of the one that is removed.
        queues.close(name(b"a"));
        assert_eq!(first(&queues, b"a"), None);
        assert_eq!(first(&queues, b"c"), Some(3));
        assert_eq!(queues.get_mut(name(b"b")).and_then(|queue| queue.first()), Some(2));
        queues.close(name(b"b"));
        assert!(queues.get(name(b"b")).is_none());
        queues.open(name(b"c")).1.join(4, (Mode::Shared, None), true);
        assert_eq!(first(&queues, b"c"), Some(3));
    }
}
