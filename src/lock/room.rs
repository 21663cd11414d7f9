//! Memory of collections that is given back, or kept to be used again.

/// Shrinks a collection that is large and almost empty.
macro_rules! give_back_room {
    ($collection:expr) => {
        let (used, room) = ($collection.len(), $collection.capacity());
        if room > 1024 && used < room / 8 {
            $collection.shrink_to(room / 4);
        }
    };
}
pub(crate) use give_back_room;

/// Gives a list back its memory, which was taken out with its items and is empty now.
#[inline]
pub fn keep_room<T>(list: &mut Vec<T>, taken: Vec<T>) {
    if list.capacity() == 0 && taken.is_empty() && taken.capacity() <= 64 {
        *list = taken;
    }
}
