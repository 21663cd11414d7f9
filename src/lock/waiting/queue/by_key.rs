//! The queues of a database's locks, by their keys.

use std::hash::BuildHasherDefault;

use indexmap::IndexMap;

use crate::lock::hashing::NumberHasher;
use crate::lock::room::give_back_room;
use crate::lock::waiting::queue::Queue;
use crate::lock::words::{Name, NameRef};

/// The queues of a database's locks.
#[derive(Debug, Default)]
pub struct ByKey {
    by_key: IndexMap<Name, Queue, BuildHasherDefault<NumberHasher>>,
    /// How often all keys of the database have changed at once.
    changes: u64,
    /// Of how many queues, the first ones, it is not known that they have been settled since.
    unseen: usize,
}

impl ByKey {
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn get(&self, name: NameRef<'_>) -> Option<&Queue> {
        self.by_key.get(&name)
    }

    /// This name as its queue stores it, so that its key can be shared.
    pub fn stored(&self, name: NameRef<'_>) -> Option<&Name> {
        self.by_key.get_key_value(&name).map(|(stored, _)| stored)
    }

    /// The queue of this lock, mutable. Brings its `stale` up to date.
    pub fn get_mut(&mut self, name: NameRef<'_>) -> Option<&mut Queue> {
        let queue = self.by_key.get_mut(&name)?;
        queue.stale |= std::mem::replace(&mut queue.changes, self.changes) != self.changes;
        Some(queue)
    }

    /// The queue of this lock, new if there is none, and the name as the queue stores it.
    pub fn open(&mut self, name: NameRef<'_>) -> (Name, &mut Queue) {
        let stored = self.stored(name).cloned().unwrap_or_else(|| name.keep());
        let changes = self.changes;
        let queue = self
            .by_key
            .entry(stored.clone())
            .or_insert_with(|| Queue { changes, ..Queue::default() });
        queue.stale |= std::mem::replace(&mut queue.changes, changes) != changes;
        (stored, queue)
    }

    pub fn close(&mut self, name: NameRef<'_>) {
        if self.by_key.swap_remove(&name).is_some() {
            give_back_room(&mut self.by_key);
        }
    }

    /// Notes that all keys of the database may have changed.
    pub fn touch_all(&mut self) {
        self.changes = self.changes.wrapping_add(1);
        self.unseen = self.by_key.len();
    }

    /// How many queues may not have been settled since all keys changed.
    pub fn unseen(&self) -> usize {
        self.unseen.min(self.by_key.len())
    }

    /// Takes the next queue out of the unseen ones, and returns its name. Goes from the last index to the
    /// first, because a queue that is removed is replaced by the last one.
    pub fn take_unseen(&mut self) -> Option<Name> {
        self.unseen = self.unseen().checked_sub(1)?;
        let (name, _) = self.by_key.get_index(self.unseen)?;
        Some(name.clone())
    }

    /// May this key have changed since its queue was last settled?
    pub fn is_stale(&self, name: NameRef<'_>) -> bool {
        (self.get(name)).is_some_and(|queue| queue.stale || queue.changes != self.changes)
    }

    /// All queues, with their names.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (&Name, &Queue)> {
        self.by_key.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::print::Secret;

    #[test]
    fn a_queue_is_found_whichever_was_found_last_and_whichever_has_moved_to_its_index() {
        let mut queues = ByKey::default();
        let name = |key| NameRef::new(0, key, Secret(1, 2));
        for (ticket, key) in [(1, b"a"), (2, b"b"), (3, b"c")] {
            queues.open(name(key)).1.join(ticket, None);
        }
        let first = |queues: &ByKey, key| queues.get(name(key)).and_then(Queue::first);
        for _ in 0..2 {
            assert_eq!(first(&queues, b"b"), Some(2));
            assert_eq!(first(&queues, b"a"), Some(1));
            assert!(queues.get(name(b"d")).is_none());
        }
        // The last queue moves to the index of the one that is removed.
        queues.close(name(b"a"));
        assert_eq!(first(&queues, b"a"), None);
        assert_eq!(first(&queues, b"c"), Some(3));
        assert_eq!(queues.get_mut(name(b"b")).and_then(|queue| queue.first()), Some(2));
        queues.close(name(b"b"));
        assert!(queues.get(name(b"b")).is_none());
        queues.open(name(b"c")).1.join(4, None);
        assert_eq!(first(&queues, b"c"), Some(3));
    }
}
