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
    Acquire, Break, Check, Guard, Info, Log, Macquire, Mrelease, Mrenew, Release, Renew, Scan,
};
use server::ModuleTable;

// Unit tests run without a server, and so without its memory.
#[cfg(not(test))]
#[global_allocator]
static MEMORY: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;

server::entries!(ModuleTable {
    name: c"lock",
    // Of Cargo.toml's version: two digits for each part.
    version: 20_000,
    commands: |commands| {
        #[cfg(feature = "provoke")]
        commands.add::<command::Provoke>()?;
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
    },
});
