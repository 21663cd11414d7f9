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
}

impl Queues {
    /// No queues yet.
    pub fn new(keyed: Keyed) -> Self {
        Self {
            by_key: IndexMap::with_hasher(keyed),
            last: Cell::default(),
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

    /// Is there a queue for this key?
    pub fn contain(&self, key: &[u8]) -> bool {
        self.place(key).is_some()
    }

    /// The queue for this key.
    pub fn get(&self, key: &[u8]) -> Option<&Queue> {
        let (_, queue) = self.by_key.get_index(self.place(key)?)?;
        Some(queue)
    }

    /// The queue for this key, to be changed.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut Queue> {
        let place = self.place(key)?;
        let (_, queue) = self.by_key.get_index_mut(place)?;
        Some(queue)
    }

    /// The queue for this key, made if there is none; and the key as it is kept.
    pub fn open(&mut self, key: &[u8]) -> (Rc<[u8]>, &mut Queue) {
        let kept = (self.place(key)).and_then(|place| self.by_key.get_index(place));
        let kept = kept.map_or_else(|| Rc::from(key), |(kept, _)| Rc::clone(kept));
        let queue = self.by_key.entry(Rc::clone(&kept)).or_default();
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

    /// Each, with its key.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Rc<[u8]>, &mut Queue)> {
        self.by_key.iter_mut()
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
