//! The command's process before it executes the command. It dies with its parent, and waits until the parent has told the
//! keeper its process id.

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, raise};
use nix::unistd::{Pid, getppid};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Executes the command. If that fails, returns the status that shells return.
pub fn launch(mut words: impl Iterator<Item = OsString>) -> u8 {
    let parent = words.next().and_then(|word| word.into_string().ok()?.parse().ok());
    let Some(command) = words.next() else { return 127 };
    if set_pdeathsig(Signal::SIGKILL).is_err() || parent.map(Pid::from_raw) != Some(getppid()) {
        return 126;
    }
    if super::signals::unblock().is_err() {
        return 126;
    }
    // The parent notices, and continues us.
    _ = raise(Signal::SIGSTOP);
    let error = Command::new(&command).args(words).exec();
    eprintln!("redis-lock: {}: {error}", command.to_string_lossy());
    if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
}
