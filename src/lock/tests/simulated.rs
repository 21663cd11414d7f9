//! A server that is small enough to think about: its keys, and what it does with clients that wait.

mod keys;
mod server;

pub use keys::{Authority, Content, Key, Keys, SimulatedKeys, Write, replay};
pub use server::{Answers, Flavour, Happened, Reply, Request, Server, place, told_on};

use crate::lock::{Db, Ms, NameRef, Secret};

/// The secret of all simulated servers.
pub const SECRET: Secret = Secret(1, 2);

/// A lock's place: its database and its key.
pub type Lock = (Db, &'static str);

/// Who wants a lock.
pub type Owner = &'static str;

/// When all histories begin, in Unix time.
pub const START: Ms = 1_700_000_000_000;

/// The lock's name, as the core knows it.
pub fn name(lock: Lock) -> NameRef<'static> {
    NameRef::new(lock.0, lock.1.as_bytes(), SECRET)
}
