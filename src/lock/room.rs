//! Memory that is not needed any more.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Shrinks a map that was much larger once.
pub fn give_back_room<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    let room = map.capacity();
    if room > 1024 && map.len() < room / 8 {
        map.shrink_to(room / 4);
    }
}
