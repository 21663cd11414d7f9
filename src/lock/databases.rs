//! Holds and queues of all databases.

use std::collections::BTreeMap;

use super::hashing::Keyed;
use super::ledger::Ledger;
use super::ledger::print::Secret;
use super::name::Db;
use super::queue::queues::Queues;

/// The holds and queues of one database.
#[derive(Debug)]
pub struct Database {
    pub ledger: Ledger,
    pub queues: Queues,
}

impl Database {
    fn new(secret: Secret) -> Self {
        Self {
            ledger: Ledger::new(secret),
            queues: Queues::new(Keyed::new(secret)),
        }
    }

    /// Are there no holds and no queues in this database?
    #[inline]
    pub fn remembers_nothing(&self) -> bool {
        self.queues.is_empty() && self.ledger.remembers_nothing()
    }
}

/// All databases that the server remembers anything of. Most servers use database 0 alone, and each
/// command asks for it several times, so it is kept outside of the map.
#[derive(Debug)]
pub struct Databases {
    first: Database,
    others: BTreeMap<Db, Database>,
    secret: Secret,
}

impl Databases {
    /// Databases without holds or queues.
    pub fn new(secret: Secret) -> Self {
        Self {
            first: Database::new(secret),
            others: BTreeMap::new(),
            secret,
        }
    }

    /// Returns this database, if there is anything to remember of it.
    #[inline]
    pub fn get(&self, db: Db) -> Option<&Database> {
        match db {
            0 => Some(&self.first),
            _ => self.others.get(&db),
        }
    }

    /// Returns this database, to be changed, if there is anything to remember of it.
    #[inline]
    pub fn get_mut(&mut self, db: Db) -> Option<&mut Database> {
        match db {
            0 => Some(&mut self.first),
            _ => self.others.get_mut(&db),
        }
    }

    /// Returns this database, and adds it if it is new.
    #[inline]
    pub fn open(&mut self, db: Db) -> &mut Database {
        let secret = self.secret;
        match db {
            0 => &mut self.first,
            _ => (self.others.entry(db)).or_insert_with(|| Database::new(secret)),
        }
    }

    /// Does this hold for any database?
    #[inline]
    pub fn any(&self, is: impl Fn(&Database) -> bool) -> bool {
        is(&self.first) || (!self.others.is_empty() && self.others.values().any(is))
    }

    /// Returns each database with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Db, &Database)> {
        let others = self.others.iter().map(|(&db, database)| (db, database));
        std::iter::once((0, &self.first)).chain(others)
    }

    /// Returns each database with its number, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Db, &mut Database)> {
        let others = (self.others.iter_mut()).map(|(&db, database)| (db, database));
        std::iter::once((0, &mut self.first)).chain(others)
    }
}
