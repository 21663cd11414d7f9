//! One file for each command, and for what does the same to several locks: its description, its grammar, and its
//! outcome as a reply.

pub mod acquire;
mod asking;
pub mod breaking;
pub mod check;
mod deadlock;
pub mod guard;
pub mod info;
pub mod log;
#[cfg(feature = "provoke")]
pub mod provoke;
pub mod release;
pub mod renew;
pub mod scan;

use crate::lock::NameRef;
use crate::protocol::{Argument, Call, Fault, Kind};

const KEY: Argument = Argument::new(c"key", Kind::Key, c"The lock.");

const NUMKEYS: Argument = Argument::new(c"numkeys", Kind::Integer, c"The number of keys, 1 to 64.");

const KEYS: Argument =
    Argument { summary: c"The locks. A repeated key counts once.", multiple: true, ..KEY };

const OWNER: Argument =
    Argument::new(c"owner", Kind::Bytes, c"The owner: one piece of work, 1 to 1024 bytes.");

const TTL: Argument =
    Argument::new(c"ttl", Kind::Integer, c"The TTL of the hold in milliseconds, counted from now.");

/// The locks that a call names behind their number, each once. An owner follows them, and perhaps a ttl.
fn lock_names<'w>(call: &mut Call<'w, '_, '_>, has_ttl: bool) -> Result<Vec<NameRef<'w>>, Fault> {
    let (keys, db) = (call.words.keys(has_ttl)?, call.db);
    let mut names: Vec<NameRef<'w>> = Vec::with_capacity(keys.len());
    for name in keys.iter().map(|&key| call.locks.name(db, key)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// The lock that a call names by its first word.
fn lock_name<'w>(call: &mut Call<'w, '_, '_>) -> Result<NameRef<'w>, Fault> {
    let key = call.words.one()?;
    Ok(call.locks.name(call.db, key))
}
