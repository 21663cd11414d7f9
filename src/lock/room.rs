//! Memory that is not needed any more.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

use indexmap::IndexMap;

/// A collection that may have been much larger once.
pub trait Roomy {
    /// How much there is, and for how much there is room.
    fn use_of_room(&self) -> (usize, usize);

    /// Has room for so much, or for all that is there.
    fn shrink_to(&mut self, room: usize);
}

/// Shrinks a collection that was much larger once.
#[inline]
pub fn give_back_room(roomy: &mut impl Roomy) {
    let (used, room) = roomy.use_of_room();
    if room > 1024 && used < room / 8 {
        roomy.shrink_to(room / 4);
    }
}

/// What was taken out of a list for a moment, and is empty now: its memory is good for what comes next.
#[inline]
pub fn keep_room<T>(list: &mut Vec<T>, taken: Vec<T>) {
    if list.capacity() == 0 && taken.is_empty() && taken.capacity() <= 64 {
        *list = taken;
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> Roomy for HashMap<K, V, S> {
    fn use_of_room(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn shrink_to(&mut self, room: usize) {
        self.shrink_to(room);
    }
}

impl<T> Roomy for VecDeque<T> {
    fn use_of_room(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn shrink_to(&mut self, room: usize) {
        self.shrink_to(room);
    }
}

impl<K, V, S> Roomy for IndexMap<K, V, S> {
    fn use_of_room(&self) -> (usize, usize) {
        (self.len(), self.capacity())
    }

    fn shrink_to(&mut self, room: usize) {
        self.shrink_to(room);
    }
}
