//! What a lock is called: a key in a database.

use std::rc::Rc;

/// The number of a database.
pub type Db = usize;

/// A lock's name, borrowed from whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameRef<'a> {
    /// The database that the key stands in.
    pub db: Db,
    /// The key.
    pub key: &'a [u8],
}

/// A lock's name, kept. Copies share the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The database that the key stands in.
    pub db: Db,
    /// The key.
    pub key: Rc<[u8]>,
}

impl Name {
    /// A number that tells it from the names of all other locks that somebody waits for, as long as
    /// nobody comes or goes: all waiters of a lock share one key.
    pub fn id(&self) -> u64 {
        u64::try_from(self.key.as_ptr().addr()).unwrap_or_default()
    }

    /// The same name, borrowed.
    pub fn borrow(&self) -> NameRef<'_> {
        NameRef {
            db: self.db,
            key: &self.key,
        }
    }
}

impl NameRef<'_> {
    /// The same name, kept.
    pub fn keep(self) -> Name {
        Name {
            db: self.db,
            key: Rc::from(self.key),
        }
    }
}
