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

use command::{
    acquire::Acquire, breaking::Break, check::Check, guard::Guard, info::Info, log::Log,
    macquire::Macquire, mrelease::Mrelease, mrenew::Mrenew, release::Release, renew::Renew,
    scan::Scan,
};
use server::Registrar;

// Unit tests run without a server, and so without its memory.
#[cfg(not(test))]
#[global_allocator]
static MEMORY: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;

/// Adds all commands to the server that loads the module.
fn add_commands(commands: &Registrar<'_>) -> Result<(), String> {
    #[cfg(feature = "provoke")]
    commands.add::<command::provoke::Provoke>()?;
    commands.add::<Acquire>()?;
    commands.add::<Release>()?;
    commands.add::<Renew>()?;
    commands.add::<Check>()?;
    commands.add::<Guard>()?;
    commands.add::<Macquire>()?;
    commands.add::<Mrelease>()?;
    commands.add::<Mrenew>()?;
    commands.add::<Info>()?;
    commands.add::<Scan>()?;
    commands.add::<Break>()?;
    commands.add::<Log>()
}
