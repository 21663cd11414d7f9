//! Memory of collections that is given back.

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
