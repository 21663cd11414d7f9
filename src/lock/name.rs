//! The name of a lock: a key in a database, with the key's hash.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use indexmap::Equivalent;

use crate::lock::print::{Print, Secret};

/// The number of a database.
pub type Db = usize;

/// The name of a lock, borrowed from the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NameRef<'a> {
    /// The database that the key stands in.
    pub db: Db,
    /// All tables find the lock by this, so that its key is hashed once. It is compared before the key.
    pub print: Print,
    pub key: &'a [u8],
}

/// The name of a lock, kept. Clones share the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub db: Db,
    pub print: Print,
    pub key: Rc<[u8]>,
}

impl Name {
    /// Returns a number that is unique among the locks with a queue, as long as no waiter comes or leaves.
    /// It is an address: all waiters for a lock share one key.
    pub fn id(&self) -> u64 {
        u64::try_from(self.key.as_ptr().addr()).unwrap_or_default()
    }

    pub fn borrow(&self) -> NameRef<'_> {
        NameRef { db: self.db, key: &self.key, print: self.print }
    }
}

impl<'a> NameRef<'a> {
    pub fn new(db: Db, key: &'a [u8], secret: Secret) -> Self {
        Self { db, key, print: secret.print(key) }
    }

    /// Returns a copy of this name that owns its key.
    pub fn keep(self) -> Name {
        Name { db: self.db, key: Rc::from(self.key), print: self.print }
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.borrow().hash(state);
    }
}

impl Hash for NameRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.print.bits());
    }
}

impl Equivalent<Name> for NameRef<'_> {
    fn equivalent(&self, name: &Name) -> bool {
        *self == name.borrow()
    }
}
