//! Memory of collections that is given back, or kept to be used again.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};

use indexmap::IndexMap;

/// A collection that may have been much larger once.
pub trait Roomy {
    /// Returns the length and the capacity.
    fn use_of_room(&self) -> (usize, usize);

    /// Shrinks the capacity to `room`, or to the length if that is more.
    fn shrink_to(&mut self, room: usize);
}

/// Shrinks a collection that is large and almost empty.
#[inline]
pub fn give_back_room(roomy: &mut impl Roomy) {
    let (used, room) = roomy.use_of_room();
    if room > 1024 && used < room / 8 {
        roomy.shrink_to(room / 4);
    }
}

/// Gives a list back its memory, which was taken out with its items and is empty now.
#[inline]
pub fn keep_room<T>(list: &mut Vec<T>, taken: Vec<T>) {
    if list.capacity() == 0 && taken.is_empty() && taken.capacity() <= 64 {
        *list = taken;
    }
}

/// A collection of the standard library's, or one that is like them.
macro_rules! roomy {
    ($collection:ty, $($generic:tt)*) => {
        impl<$($generic)*> Roomy for $collection {
            fn use_of_room(&self) -> (usize, usize) {
                (self.len(), self.capacity())
            }

            fn shrink_to(&mut self, room: usize) {
                self.shrink_to(room);
            }
        }
    };
}

roomy!(HashMap<K, V, S>, K: Eq + Hash, V, S: BuildHasher);
roomy!(IndexMap<K, V, S>, K, V, S);
roomy!(VecDeque<T>, T);
