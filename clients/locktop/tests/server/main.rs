//! locktop on real servers: one page of plain text, and in a terminal, which tmux plays.
//!
//! `REDIS_SERVER` names the server, `REDIS_LOCK_MODULE` the module.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

mod once;
mod support;
mod terminal;
