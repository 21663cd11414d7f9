//! All that touches the server. No rule of the lock is here; all `unsafe` is.
//!
//! The server runs everything of ours on one thread, one callback at a time, but callbacks nest:
//! opening a key, announcing a change, and waking a client can each call back into this module, and
//! other modules may issue our commands from theirs. So nothing of ours is borrowed while the
//! server is called in such a way (see [`module::Module`]).
#![allow(unsafe_code)]

mod api;
mod audience;
mod blocked;
mod call;
mod cluster;
mod commands;
mod constants;
mod context;
mod description;
mod events;
mod inner;
mod key;
mod keys;
mod load;
mod module;
mod refusals;
mod replicate;
mod reply;
mod rights;
mod routing;
mod scan;
mod sent_on;
mod settings;
mod shield;
mod slow;
mod statistics;
mod text;
mod thread;
mod timer;
mod version;

pub(crate) use load::entries;
pub use load::{Table, load, unload};
