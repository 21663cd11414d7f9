//! The name of a lock: a key in a database.

use std::rc::Rc;

/// The number of a database.
pub type Db = usize;

/// The name of a lock, borrowed from the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameRef<'a> {
    /// The database that the key stands in.
    pub db: Db,
    pub key: &'a [u8],
}

/// The name of a lock, kept. Clones share the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub db: Db,
    pub key: Rc<[u8]>,
}

impl Name {
    /// Returns a number that is unique among the locks with a queue, as long as no waiter comes or leaves.
    /// It is an address: all waiters for a lock share one key.
    pub fn id(&self) -> u64 {
        u64::try_from(self.key.as_ptr().addr()).unwrap_or_default()
    }

    pub fn borrow(&self) -> NameRef<'_> {
        NameRef { db: self.db, key: &self.key }
    }
}

impl NameRef<'_> {
    /// Returns a copy of this name that owns its key.
    pub fn keep(self) -> Name {
        Name { db: self.db, key: Rc::from(self.key) }
    }
}
