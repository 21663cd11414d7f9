//! All that touches the server. No rule of the lock is here; all `unsafe` is.
//!
//! The server runs everything of ours on one thread, one callback at a time, but callbacks nest:
//! opening a key, announcing a change, and waking a client can each call back into this module, and
//! other modules may issue our commands from theirs. What that means for the locks stands at
//! [`change`](module::Module::change).
#![allow(unsafe_code)]

mod authority;
mod blocked;
mod classes;
mod clock;
mod cluster;
mod command;
mod config;
mod events;
mod expired;
mod ffi;
mod files;
mod inbox;
mod info;
mod instance;
mod jobs;
mod keyspace;
mod load;
mod log;
mod module;
mod notes;
mod notify;
mod origins;
mod publish;
mod replicas;
mod replicate;
mod rights;
mod sent_on;
mod subscriptions;
mod thread;
mod timer;
mod turns;
mod version;
mod wait;
mod waiting_name;

pub use command::add;
pub use ffi::Ctx;
