//! Keys with deadlines, and a log of all that is written to them.

use std::collections::{BTreeMap, BTreeSet};

use crate::lock::fencing::Epoch;
use crate::lock::{Db, Keyspace, Ms, NameRef, Now, Stored};

use super::Lock;

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A string: somebody's hold.
    Token(Vec<u8>),
    /// A list, say.
    NoLock,
}

/// A key's content and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub content: Content,
    pub deadline: Option<Ms>,
}

pub type Keys = BTreeMap<(Db, String), Key>;

/// What replicas and the append-only file are told: the server's own commands, with absolute times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    Set(Lock, Key),
    PExpireAt(Lock, Ms),
    Persist(Lock),
    Del(Lock),
    Rename(Lock, Lock),
    Flush(Option<Db>),
    Swap(Db, Db),
}

/// What a server without the module makes of a write.
pub fn replay(keys: &mut Keys, write: &Write) {
    let place = |lock: &Lock| (lock.0, lock.1.to_owned());
    match write {
        Write::Set(lock, key) => {
            keys.insert(place(lock), key.clone());
        }
        Write::PExpireAt(lock, deadline) => {
            if let Some(key) = keys.get_mut(&place(lock)) {
                key.deadline = Some(*deadline);
            }
        }
        Write::Persist(lock) => {
            if let Some(key) = keys.get_mut(&place(lock)) {
                key.deadline = None;
            }
        }
        Write::Del(lock) => {
            keys.remove(&place(lock));
        }
        Write::Rename(from, to) => {
            if let Some(key) = keys.remove(&place(from)) {
                keys.insert(place(to), key);
            }
        }
        Write::Flush(db) => keys.retain(|place, _| db.is_some_and(|db| place.0 != db)),
        Write::Swap(one, other) => {
            *keys = std::mem::take(keys)
                .into_iter()
                .map(|((db, key), value)| {
                    let db = match db {
                        db if db == *one => *other,
                        db if db == *other => *one,
                        db => db,
                    };
                    ((db, key), value)
                })
                .collect();
        }
    }
}

/// On whose behalf keys are touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// A client's command that only reads.
    Reader,
    /// A client's command that writes. The server has asked everything already, and shows it no
    /// expired key.
    Writer,
    /// The core's own. It has to ask.
    Ourselves,
}

/// The keys of a server.
#[derive(Debug)]
pub struct SimulatedKeys {
    pub keys: Keys,
    pub now: Now,
    /// All that was written since somebody took this.
    pub log: Vec<Write>,
    /// Keys that were found expired, and removed, since somebody took this.
    pub expired: Vec<Lock>,
    /// Whoever looks at an expired key removes it. Servers don't do so while writes are paused, nor
    /// on replicas.
    pub removes_expired: bool,
    /// On whose behalf the core acts.
    pub authority: Authority,
    /// May nothing be written?
    pub paused: bool,
    /// Keys that may not be written.
    pub closed: BTreeSet<Lock>,
    /// What the core should not have done.
    pub offences: Vec<String>,
    known: BTreeSet<Lock>,
}

impl SimulatedKeys {
    pub fn new(now: Now, known: &[Lock]) -> Self {
        Self {
            keys: Keys::new(),
            now,
            log: Vec::new(),
            expired: Vec::new(),
            removes_expired: true,
            authority: Authority::Ourselves,
            paused: false,
            closed: BTreeSet::new(),
            offences: Vec::new(),
            known: known.iter().copied().collect(),
        }
    }

    pub fn get(&self, lock: Lock) -> Option<&Key> {
        self.keys.get(&(lock.0, lock.1.to_owned()))
    }

    /// Is the key there, although its time is over?
    pub fn is_expired(&self, lock: Lock) -> bool {
        self.get(lock)
            .and_then(|key| key.deadline)
            .is_some_and(|deadline| self.now.ms() > deadline)
    }

    /// A write of the server's own.
    pub fn write(&mut self, write: Write) {
        replay(&mut self.keys, &write);
        self.log.push(write);
    }

    /// What a server does on its way to an expired key.
    pub fn expire(&mut self, lock: Lock) {
        let removes = self.removes_expired || self.authority == Authority::Writer;
        if removes && !self.paused && self.is_expired(lock) {
            self.write(Write::Del(lock));
            self.expired.push(lock);
        }
    }

    fn lock(&self, name: NameRef<'_>) -> Lock {
        *self
            .known
            .iter()
            .find(|lock| lock.0 == name.db && lock.1.as_bytes() == name.key)
            .expect("a lock that the test knows")
    }

    fn is_allowed(&self, lock: Lock) -> bool {
        !self.paused && !self.closed.contains(&lock)
    }

    fn check(&mut self, lock: Lock, what: &str) {
        if !self.is_allowed(lock) || self.authority == Authority::Reader {
            self.offences
                .push(format!("{what} {lock:?} while it may not be written"));
        }
        if matches!(self.get(lock), Some(key) if key.content == Content::NoLock)
            && !self.is_expired(lock)
        {
            self.offences
                .push(format!("{what} {lock:?}, which is no lock"));
        }
    }
}

impl Keyspace for SimulatedKeys {
    fn look(&mut self, name: NameRef<'_>) -> Stored<'_> {
        let lock = self.lock(name);
        self.expire(lock);
        let over = self.is_expired(lock);
        match self.get(lock) {
            Some(Key {
                content: Content::Token(owner),
                ..
            }) => Stored::Exclusive { owner },
            Some(_) if !over => Stored::NoLock,
            _ => Stored::Nothing,
        }
    }

    fn deadline(&mut self, name: NameRef<'_>) -> Option<Ms> {
        let lock = self.lock(name);
        self.get(lock).and_then(|key| key.deadline)
    }

    fn hold(&mut self, name: NameRef<'_>, owner: &[u8], deadline: Ms) {
        let lock = self.lock(name);
        self.check(lock, "SET");
        let key = Key {
            content: Content::Token(owner.to_vec()),
            deadline: Some(deadline),
        };
        self.keys.insert((lock.0, lock.1.to_owned()), key.clone());
        self.log.push(Write::Set(lock, key));
    }

    fn move_deadline(&mut self, name: NameRef<'_>, deadline: Ms) {
        let lock = self.lock(name);
        self.check(lock, "PEXPIREAT");
        match self.keys.get_mut(&(lock.0, lock.1.to_owned())) {
            Some(key) => key.deadline = Some(deadline),
            None => self.offences.push(format!("PEXPIREAT {lock:?}: no key")),
        }
        self.log.push(Write::PExpireAt(lock, deadline));
    }

    fn remove(&mut self, name: NameRef<'_>) {
        let lock = self.lock(name);
        self.check(lock, "DEL");
        if self.keys.remove(&(lock.0, lock.1.to_owned())).is_none() {
            self.offences.push(format!("DEL {lock:?}: no key"));
        }
        self.log.push(Write::Del(lock));
    }

    fn epoch(&mut self, _: Now) -> Epoch {
        // Slots stay where they are: how they move is a matter of the fencing clock's own tests.
        Epoch::default()
    }

    fn is_writable(&mut self) -> bool {
        match self.authority {
            Authority::Reader => false,
            Authority::Writer => true,
            Authority::Ourselves => !self.paused,
        }
    }

    fn may_write(&mut self, name: NameRef<'_>) -> bool {
        let lock = self.lock(name);
        match self.authority {
            Authority::Reader => false,
            Authority::Writer => true,
            // A server that is paused does not say so when it is asked about a key.
            Authority::Ourselves => !self.closed.contains(&lock),
        }
    }
}
