//! What a test needs to meet a real server: [`Server`] and its [`Setup`], [`Client`] with [`cmd!`],
//! [`Value`], [`Cluster`], and waits that have a deadline instead of sleeps.
#![allow(dead_code, reason = "a vocabulary: not every test needs every word")]
#![allow(unused_imports, reason = "as above: the words are exported, used or not")]

mod aof;
mod blocking;
mod chance;
mod client;
mod clock;
mod cluster;
mod command;
mod disk;
mod events;
mod leftovers;
mod locks;
mod module;
mod port;
mod process;
mod program;
mod proxy;
mod replication;
mod sentinel;
mod server;
mod setup;
mod several;
mod shares;
mod users;
mod value;
mod version;
mod wait;

pub use chance::Chance;
pub use client::Client;
pub use cluster::Cluster;
pub use command::{Arg, Command, commands, each, in_lua, words};
pub(crate) use command::{args, cmd};
pub use events::events;
pub use locks::LONG;
pub use process::output;
pub use program::{has_io_threads, io_threads, is_redis_8_with_io_threads};
pub use proxy::Proxy;
pub use replication::Role;
pub use sentinel::Sentinels;
pub use server::Server;
pub use setup::Setup;
pub use several::{counted, macquire, macquire_waiting};
pub use shares::MARKER;
pub use value::Value;
pub(crate) use version::skip_unless;
pub use version::{Kind, Version};
pub use wait::{eventually, eventually_some};
