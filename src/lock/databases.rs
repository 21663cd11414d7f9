//! One thing for each database.

use std::collections::BTreeMap;

use crate::lock::words::{Db, Secret};

/// What belongs to each database. Most servers use database 0 alone, and each command asks for it several
/// times, so it is kept outside of the map.
#[derive(Debug)]
pub struct Databases<T> {
    first: T,
    others: BTreeMap<Db, T>,
    secret: Secret,
    new: fn(Secret) -> T,
}

impl<T> Databases<T> {
    pub fn new(secret: Secret, new: fn(Secret) -> T) -> Self {
        Self { first: new(secret), others: BTreeMap::new(), secret, new }
    }

    /// What belongs to this database, if it was ever opened.
    #[inline]
    pub fn get(&self, db: Db) -> Option<&T> {
        match db {
            0 => Some(&self.first),
            _ => self.others.get(&db),
        }
    }

    /// What belongs to this database, new if there is nothing yet.
    #[inline]
    pub fn open(&mut self, db: Db) -> &mut T {
        let (secret, new) = (self.secret, self.new);
        match db {
            0 => &mut self.first,
            _ => self.others.entry(db).or_insert_with(|| new(secret)),
        }
    }

    #[inline]
    pub fn any(&self, is: impl Fn(&T) -> bool) -> bool {
        is(&self.first) || (!self.others.is_empty() && self.others.values().any(is))
    }

    /// Is it so in this database, or without one in any?
    pub fn any_of(&self, db: Option<Db>, is: impl Fn(&T) -> bool) -> bool {
        match db {
            Some(db) => self.get(db).is_some_and(is),
            None => self.any(is),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Db, &T)> {
        let others = self.others.iter().map(|(&db, one)| (db, one));
        std::iter::once((0, &self.first)).chain(others)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Db, &mut T)> {
        let others = self.others.iter_mut().map(|(&db, one)| (db, one));
        std::iter::once((0, &mut self.first)).chain(others)
    }
}
