//! What the command's process is before it is the command: it ends with its parent, and waits until that has said which
//! process it is.

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, raise};
use nix::unistd::{Pid, getppid};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes the command. Returns the status that shells have for one that can't be started.
pub fn launch(mut words: impl Iterator<Item = OsString>) -> u8 {
    let parent = words.next().and_then(|word| word.into_string().ok()?.parse().ok());
    let Some(command) = words.next() else { return 127 };
    if set_pdeathsig(Signal::SIGKILL).is_err() || parent.map(Pid::from_raw) != Some(getppid()) {
        return 126;
    }
    if super::signals::unblock().is_err() {
        return 126;
    }
    // The parent sees it, and continues us.
    _ = raise(Signal::SIGSTOP);
    let error = Command::new(&command).args(words).exec();
    eprintln!("redis-lock: {}: {error}", command.to_string_lossy());
    if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
}
