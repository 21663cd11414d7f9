//! The command line on real servers: commands that run under locks and lose them, what it shows, and locktop, in one page
//! of plain text and in a terminal, which tmux plays.
//!
//! `REDIS_SERVER` names the server, `REDIS_LOCK_MODULE` the module; `LOCK_ROUNDS=200` is how many faults
//! `a_command_never_outlives_its_hold` tries.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

mod fair;
mod job;
mod losing;
mod masters;
mod once;
mod period;
mod proxy;
mod replicas;
mod running;
mod shown;
mod soak;
mod support;
mod terminal;
mod tls;
mod waiting;
mod without_module;
