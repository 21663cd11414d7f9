//! Keys that the server finds expired while we use them.

use std::cell::{Cell, RefCell};

use super::ffi::RawString;
use crate::lock::{Db, NameRef};

/// What the server has found expired since we began what we are doing.
#[derive(Default)]
pub struct Expired {
    /// The name of the key that we are opening just now, by its place in memory; else 0.
    opening: Cell<usize>,
    /// Had that key expired?
    opened: Cell<bool>,
    /// All keys that had expired.
    keys: RefCell<Vec<(Db, Box<[u8]>)>>,
}

impl Expired {
    /// Opens a key of this name, and says whether the server has found it expired by that.
    pub fn open<T>(&self, name: *const RawString, open: impl FnOnce() -> T) -> (T, bool) {
        self.opening.set(name.addr());
        let opened = open();
        self.opening.set(0);
        (opened, self.opened.take())
    }

    /// This key has expired. Is it the one that we are opening? Then [`open`](Self::open) says so.
    pub fn is_opening(&self, key: *const RawString) -> bool {
        let is_it = self.opening.get() == key.addr();
        if is_it {
            self.opened.set(true);
        }
        is_it
    }

    /// The server has found this key expired in the middle of what we are doing.
    pub fn note(&self, db: Db, key: &[u8]) {
        self.keys.borrow_mut().push((db, Box::from(key)));
    }

    /// Has this key expired?
    pub fn has(&self, name: NameRef<'_>) -> bool {
        self.keys.borrow().iter().any(|(db, key)| *db == name.db && **key == *name.key)
    }

    /// We begin something else.
    #[inline(always)]
    pub fn forget(&self) {
        if !self.keys.borrow().is_empty() {
            self.keys.take();
        }
    }
}
