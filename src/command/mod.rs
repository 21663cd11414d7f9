//! One file for each command: its description, its grammar, and its outcome as a reply.

mod acquire;
mod check;
mod guard;
mod info;
mod release;
mod renew;

pub use acquire::Acquire;
pub use check::Check;
pub use guard::Guard;
pub use info::Info;
pub use release::Release;
pub use renew::Renew;

use crate::lock::NameRef;
use crate::protocol::{Argument, Call, Fault, Kind};

const KEY: Argument = Argument {
    name: c"key",
    kind: Kind::Key,
    token: None,
    summary: c"The lock.",
    optional: false,
    multiple: false,
};

const OWNER: Argument = Argument {
    name: c"owner",
    kind: Kind::String,
    token: None,
    summary: c"The token that names the piece of work that holds the lock, 1 to 1024 bytes.",
    optional: false,
    multiple: false,
};

const TTL: Argument = Argument {
    name: c"ttl",
    kind: Kind::Integer,
    token: None,
    summary: c"For how many milliseconds from now the lock is held.",
    optional: false,
    multiple: false,
};

/// The lock that a call names by its first word.
fn lock_name<'w>(call: &mut Call<'w, '_, '_>) -> Result<NameRef<'w>, Fault> {
    let key = call.words.one()?;
    Ok(NameRef { db: call.db, key })
}
