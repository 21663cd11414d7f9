//! Real servers, as a user meets them. One binary, so that it is linked once; one module for each
//! theme. `REDIS_SERVER` and `REDIS_LOCK_MODULE` choose the server and the module.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unreachable,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

mod clocks;
mod cluster;
mod commands;
mod conditions;
mod deadlock;
mod described;
mod fair;
mod fuzz;
mod guard;
mod harness;
mod hearing;
mod histories;
mod idle;
mod io_threads;
mod losses;
mod lost_updates;
mod neighbour;
mod one_moment;
mod operating;
mod order;
mod pages;
mod panics;
mod persistence;
mod places;
mod provoked;
mod renamed;
mod replicas;
mod replication;
mod rights;
mod rounds;
mod session;
mod settings;
mod several;
mod sharing;
mod shedding;
mod silent;
mod split;
mod support;
mod tracking;
mod trouble;
mod waiting;
mod ways_a_key_goes;
mod who;
