//! The queues of a database's locks, by their keys.

use std::cell::Cell;
use std::rc::Rc;

use indexmap::IndexMap;

use crate::lock::hashing::Keyed;
use crate::lock::queue::Queue;
use crate::lock::room::give_back_room;

/// The queues. Whoever settles a lock asks for its queue again and again, so the one that was found
/// last is found again without a hash.
#[derive(Debug)]
pub struct Queues {
    by_key: IndexMap<Rc<[u8]>, Queue, Keyed>,
    /// Where that one stood. Another may stand there by now: its key says so.
    last: Cell<usize>,
    /// How often something has happened to all locks of the database.
    changes: u64,
    /// So many queues, from the first place on, may not have been looked at since.
    unseen: usize,
}

impl Queues {
    /// No queues yet.
    pub fn new(keyed: Keyed) -> Self {
        Self {
            by_key: IndexMap::with_hasher(keyed),
            last: Cell::default(),
            changes: 0,
            unseen: 0,
        }
    }

    fn place(&self, key: &[u8]) -> Option<usize> {
        let last = self.last.get();
        if (self.by_key.get_index(last)).is_some_and(|(found, _)| **found == *key) {
            return Some(last);
        }
        let place = self.by_key.get_index_of(key)?;
        self.last.set(place);
        Some(place)
    }

    /// Does nobody wait here?
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Is there a queue for this key?
    pub fn contain(&self, key: &[u8]) -> bool {
        self.place(key).is_some()
    }

    /// The queue for this key.
    pub fn get(&self, key: &[u8]) -> Option<&Queue> {
        let (_, queue) = self.by_key.get_index(self.place(key)?)?;
        Some(queue)
    }

    /// The key of a queue as it is kept.
    pub fn kept(&self, key: &[u8]) -> Option<Rc<[u8]>> {
        let (kept, _) = self.by_key.get_index(self.place(key)?)?;
        Some(Rc::clone(kept))
    }

    /// The queue for this key, to be changed.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Queue> {
        let place = self.place(key)?;
        let (_, queue) = self.by_key.get_index_mut(place)?;
        queue.stale |= std::mem::replace(&mut queue.changes, self.changes) != self.changes;
        Some(queue)
    }

    /// The queue for this key, made if there is none; and the key as it is kept.
    pub fn open(&mut self, key: &[u8]) -> (Rc<[u8]>, &mut Queue) {
        let kept = (self.place(key)).and_then(|place| self.by_key.get_index(place));
        let kept = kept.map_or_else(|| Rc::from(key), |(kept, _)| Rc::clone(kept));
        let changes = self.changes;
        let queue = self
            .by_key
            .entry(Rc::clone(&kept))
            .or_insert_with(|| Queue {
                changes,
                ..Queue::default()
            });
        queue.stale |= std::mem::replace(&mut queue.changes, changes) != changes;
        (kept, queue)
    }

    /// The queue for this key is no more.
    pub fn close(&mut self, key: &[u8]) {
        if let Some(place) = self.place(key) {
            self.by_key.swap_remove_index(place);
            give_back_room(&mut self.by_key);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Something has happened to all keys of the database.
    pub fn touch_all(&mut self) {
        self.changes = self.changes.wrapping_add(1);
        self.unseen = self.by_key.len();
    }

    /// What has happened to all keys matters no more.
    pub fn untouch_all(&mut self) {
        self.unseen = 0;
    }

    /// How many queues may not have been looked at since something happened to all keys.
    pub fn unseen(&self) -> usize {
        self.unseen.min(self.by_key.len())
    }

    /// The key of one of these, the next time that of another. They are gone through from the last to
    /// the first: a queue that takes the place of another comes from further behind.
    pub fn next_unseen(&mut self) -> Option<Rc<[u8]>> {
        self.unseen = self.unseen().checked_sub(1)?;
        let (key, _) = self.by_key.get_index(self.unseen)?;
        Some(Rc::clone(key))
    }

    /// Has something happened to this key that its queue has not been settled after?
    pub fn is_stale(&self, key: &[u8]) -> bool {
        (self.get(key)).is_some_and(|queue| queue.stale || queue.changes != self.changes)
    }

    /// Each, with its key.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (&Rc<[u8]>, &Queue)> {
        self.by_key.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::ledger::print::Secret;

    #[test]
    fn a_queue_is_found_whichever_was_found_last_and_whoever_has_moved_to_its_place() {
        let mut queues = Queues::new(Keyed::new(Secret(1, 2)));
        for (ticket, key) in [(1, b"a"), (2, b"b"), (3, b"c")] {
            queues.open(key).1.join(ticket);
        }
        let first = |queues: &Queues, key: &[u8]| queues.get(key).and_then(Queue::first);
        for _ in 0..2 {
            assert_eq!(first(&queues, b"b"), Some(2));
            assert_eq!(first(&queues, b"a"), Some(1));
            assert!(!queues.contain(b"d"));
        }
        // The last one moves to its place.
        queues.close(b"a");
        assert_eq!(first(&queues, b"a"), None);
        assert_eq!(first(&queues, b"c"), Some(3));
        assert_eq!(
            queues.get_mut(b"b").and_then(|queue| queue.first()),
            Some(2)
        );
        queues.close(b"b");
        assert!(!queues.contain(b"b"));
        queues.open(b"c").1.join(4);
        assert_eq!((queues.len(), first(&queues, b"c")), (1, Some(3)));
    }
}
