//! What the server remembers of its databases' locks.

use std::collections::BTreeMap;

use super::hashing::Keyed;
use super::ledger::Ledger;
use super::ledger::print::Secret;
use super::name::Db;
use super::queue::queues::Queues;

/// What the server remembers of one database's locks.
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

    /// Is no key known in it, and none waited for?
    #[inline]
    pub fn remembers_nothing(&self) -> bool {
        self.queues.is_empty() && self.ledger.remembers_nothing()
    }
}

/// All of them. The one that a client has selected if it has selected none is the only one in most
/// servers, and each command asks for it several times.
#[derive(Debug)]
pub struct Databases {
    first: Database,
    others: BTreeMap<Db, Database>,
    secret: Secret,
}

impl Databases {
    /// Nothing is remembered of any.
    pub fn new(secret: Secret) -> Self {
        Self {
            first: Database::new(secret),
            others: BTreeMap::new(),
            secret,
        }
    }

    /// What is remembered of this one, if anything.
    #[inline]
    pub fn get(&self, db: Db) -> Option<&Database> {
        match db {
            0 => Some(&self.first),
            _ => self.others.get(&db),
        }
    }

    /// What is remembered of this one, if anything, to be changed.
    #[inline]
    pub fn get_mut(&mut self, db: Db) -> Option<&mut Database> {
        match db {
            0 => Some(&mut self.first),
            _ => self.others.get_mut(&db),
        }
    }

    /// What is remembered of this one, or is to be from now on.
    #[inline]
    pub fn open(&mut self, db: Db) -> &mut Database {
        let secret = self.secret;
        match db {
            0 => &mut self.first,
            _ => (self.others.entry(db)).or_insert_with(|| Database::new(secret)),
        }
    }

    /// Is it so with any of them?
    #[inline]
    pub fn any(&self, is: impl Fn(&Database) -> bool) -> bool {
        is(&self.first) || (!self.others.is_empty() && self.others.values().any(is))
    }

    /// Each, with its number.
    pub fn iter(&self) -> impl Iterator<Item = (Db, &Database)> {
        let others = self.others.iter().map(|(&db, database)| (db, database));
        std::iter::once((0, &self.first)).chain(others)
    }

    /// Each, with its number.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Db, &mut Database)> {
        let others = (self.others.iter_mut()).map(|(&db, database)| (db, database));
        std::iter::once((0, &mut self.first)).chain(others)
    }
}
