//! The signals that this process is sent.

use nix::sys::signal::{SigSet, Signal};
use std::fs;
use std::io;
use std::thread;

/// Those that are passed on to the command.
const HANDED_ON: [Signal; 8] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGTSTP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

/// Calls `hear` for each, on its own thread. Call it before any other thread starts.
pub fn listen(hear: impl Fn(Signal) -> bool + Send + 'static) -> io::Result<()> {
    let heard = heard();
    blocked().thread_block()?;
    thread::Builder::new().spawn(move || while heard.wait().is_ok_and(&hear) {})?;
    Ok(())
}

/// For the command, which would inherit what is blocked.
pub fn unblock() -> io::Result<()> {
    Ok(blocked().thread_unblock()?)
}

fn heard() -> SigSet {
    let ignored = ignored();
    let mut heard = SigSet::empty();
    // nohup ignores HUP for the command, too.
    for signal in HANDED_ON.into_iter().filter(|signal| ignored >> (*signal as u32 - 1) & 1 == 0) {
        heard.add(signal);
    }
    heard.add(Signal::SIGCHLD);
    heard.add(Signal::SIGCONT);
    heard
}

fn blocked() -> SigSet {
    let mut blocked = heard();
    // Taking the terminal back from the command would stop us.
    blocked.add(Signal::SIGTTOU);
    blocked
}

/// As a bit mask, signal 1 in the lowest bit.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Does it end a process by default?
pub fn ends(signal: Signal) -> bool {
    !matches!(signal, Signal::SIGTSTP | Signal::SIGWINCH | Signal::SIGCONT | Signal::SIGCHLD)
}
