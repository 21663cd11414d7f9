//! Locks as native commands of Redis and Valkey.
//!
//! The module's table. What a lock is stands in [`lock`], what is said about it in [`command`], and
//! all that touches the server in [`server`]; [`protocol`] is the language that those speak.

mod command;
mod lock;
mod protocol;
#[cfg(feature = "provoke")]
mod provoke;
mod server;

use command::acquire::{Acquire, Macquire};
use command::release::{Mrelease, Release};
use command::renew::{Mrenew, Renew};
use command::{breaking::Break, check::Check, guard::Guard, info::Info, log::Log, scan::Scan};
use server::{Ctx, add};

// Unit tests run without a server, and so without its memory.
#[cfg(not(test))]
#[global_allocator]
static MEMORY: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;

/// Adds all commands to the server that loads the module.
fn add_commands(ctx: Ctx<'_>) -> Result<(), String> {
    #[cfg(feature = "provoke")]
    add::<command::provoke::Provoke>(ctx)?;
    add::<Acquire>(ctx)?;
    add::<Release>(ctx)?;
    add::<Renew>(ctx)?;
    add::<Check>(ctx)?;
    add::<Guard>(ctx)?;
    add::<Macquire>(ctx)?;
    add::<Mrelease>(ctx)?;
    add::<Mrenew>(ctx)?;
    add::<Info>(ctx)?;
    add::<Scan>(ctx)?;
    add::<Break>(ctx)?;
    add::<Log>(ctx)
}
