//! The queues of a database's locks, by their keys.

use std::cell::Cell;
use std::rc::Rc;

use indexmap::IndexMap;

use crate::lock::hashing::Keyed;
use crate::lock::room::give_back_room;
use crate::lock::waiting::queue::Queue;

/// The queues of a database's locks. Settling a lock asks for its queue again and again, so the one that was
/// found last is found again without hashing its key.
#[derive(Debug)]
pub struct ByKey {
    by_key: IndexMap<Rc<[u8]>, Queue, Keyed>,
    /// The index of the queue that was found last. Another may be there by now, so its key is compared.
    last: Cell<usize>,
    /// How often all keys of the database have changed at once.
    changes: u64,
    /// Of how many queues, the first ones, it is not known that they have been settled since.
    unseen: usize,
}

impl ByKey {
    pub fn new(keyed: Keyed) -> Self {
        Self { by_key: IndexMap::with_hasher(keyed), last: Cell::default(), changes: 0, unseen: 0 }
    }

    fn index_of(&self, key: &[u8]) -> Option<usize> {
        let last = self.last.get();
        if (self.by_key.get_index(last)).is_some_and(|(found, _)| **found == *key) {
            return Some(last);
        }
        let index = self.by_key.get_index_of(key)?;
        self.last.set(index);
        Some(index)
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn get(&self, key: &[u8]) -> Option<&Queue> {
        let (_, queue) = self.by_key.get_index(self.index_of(key)?)?;
        Some(queue)
    }

    /// This key as its queue stores it, so that it can be shared.
    pub fn stored_key(&self, key: &[u8]) -> Option<Rc<[u8]>> {
        let (stored, _) = self.by_key.get_index(self.index_of(key)?)?;
        Some(Rc::clone(stored))
    }

    /// The queue of this key, mutable. Brings its `stale` up to date.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Queue> {
        let index = self.index_of(key)?;
        let (_, queue) = self.by_key.get_index_mut(index)?;
        queue.stale |= std::mem::replace(&mut queue.changes, self.changes) != self.changes;
        Some(queue)
    }

    /// The queue of this key, new if there is none, and the key as the queue stores it.
    pub fn open(&mut self, key: &[u8]) -> (Rc<[u8]>, &mut Queue) {
        let stored = (self.index_of(key)).and_then(|index| self.by_key.get_index(index));
        let stored = stored.map_or_else(|| Rc::from(key), |(stored, _)| Rc::clone(stored));
        let changes = self.changes;
        let queue = self
            .by_key
            .entry(Rc::clone(&stored))
            .or_insert_with(|| Queue { changes, ..Queue::default() });
        queue.stale |= std::mem::replace(&mut queue.changes, changes) != changes;
        (stored, queue)
    }

    pub fn close(&mut self, key: &[u8]) {
        if let Some(index) = self.index_of(key) {
            self.by_key.swap_remove_index(index);
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

    /// Takes the next queue out of the unseen ones, and returns its key. Goes from the last index to the
    /// first, because a queue that is removed is replaced by the last one.
    pub fn take_unseen(&mut self) -> Option<Rc<[u8]>> {
        self.unseen = self.unseen().checked_sub(1)?;
        let (key, _) = self.by_key.get_index(self.unseen)?;
        Some(Rc::clone(key))
    }

    /// May this key have changed since its queue was last settled?
    pub fn is_stale(&self, key: &[u8]) -> bool {
        (self.get(key)).is_some_and(|queue| queue.stale || queue.changes != self.changes)
    }

    /// All queues, with their keys.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (&Rc<[u8]>, &Queue)> {
        self.by_key.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::print::Secret;

    #[test]
    fn a_queue_is_found_whichever_was_found_last_and_whichever_has_moved_to_its_index() {
        let mut queues = ByKey::new(Keyed::new(Secret(1, 2)));
        for (ticket, key) in [(1, b"a"), (2, b"b"), (3, b"c")] {
            queues.open(key).1.join(ticket, None);
        }
        let first = |queues: &ByKey, key: &[u8]| queues.get(key).and_then(Queue::first);
        for _ in 0..2 {
            assert_eq!(first(&queues, b"b"), Some(2));
            assert_eq!(first(&queues, b"a"), Some(1));
            assert!(queues.get(b"d").is_none());
        }
        // The last queue moves to the index of the one that is removed.
        queues.close(b"a");
        assert_eq!(first(&queues, b"a"), None);
        assert_eq!(first(&queues, b"c"), Some(3));
        assert_eq!(queues.get_mut(b"b").and_then(|queue| queue.first()), Some(2));
        queues.close(b"b");
        assert!(queues.get(b"b").is_none());
        queues.open(b"c").1.join(4, None);
        assert_eq!(first(&queues, b"c"), Some(3));
    }
}
