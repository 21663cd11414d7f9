//! `redis-lock run`: a command that runs while it holds a lock.
//!
//! By two processes. The first is the command's parent: it passes signals on, and ends the command before the hold does.
//! The second, the keeper, acquires the lock and renews it. Each knows when the hold ends, and ends the command if the
//! other is stopped or killed.

mod clock;
mod front;
mod held;
mod keeper;
mod launcher;
mod link;
mod margin;
mod options;
mod owner;
mod signals;
mod terminal;
mod tree;
mod wire;

use crate::place::Environment;
use crate::{complain, print};
use options::{Options, help};
use std::ffi::OsString;
use std::process::ExitCode;

/// The lock was not acquired, and nothing ran.
pub const NOT_ACQUIRED: u8 = 75;
/// The lock was lost while the command ran.
pub const LOST: u8 = 76;
/// Invalid options.
const USAGE: u8 = 64;

/// Runs a command under a lock.
pub fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    let options = match Options::read(words.iter().cloned(), Environment::read()) {
        Ok(Some(options)) => options,
        Ok(None) => return print(&help()),
        Err(wrong) => return complain(&format!("{wrong} (redis-lock run -h)"), USAGE),
    };
    match front::run(&options, &words) {
        Ok(status) => ExitCode::from(status),
        Err(error) => complain(&format!("can't run a command under a lock: {error}"), NOT_ACQUIRED),
    }
}

/// The second process of `run`.
pub fn keep(words: impl Iterator<Item = OsString>) -> ExitCode {
    let kept = match Options::read(words, Environment::read()) {
        Ok(Some(options)) => keeper::keep(options).is_ok(),
        _ => false,
    };
    ExitCode::from(if kept { 0 } else { USAGE })
}

/// The command's process, before it executes the command.
pub fn launch(words: impl Iterator<Item = OsString>) -> ExitCode {
    ExitCode::from(launcher::launch(words))
}
