//! The server's own thread, on which it has loaded us, and on which everything of ours runs.
//!
//! A server has other threads: its own, which read and parse what clients send, and those of other
//! modules, which may run commands while they hold the server's lock. Nothing is done on these; what the
//! server tells us there is left in the inbox.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::ffi::context;

static OWN: AtomicU64 = AtomicU64::new(0);
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);

/// The module is being loaded: this is the server's own thread.
pub fn is_this() {
    OWN.store(this(), Ordering::Relaxed);
}

/// Are we on the server's own thread?
#[inline]
pub fn is_own() -> bool {
    this() == OWN.load(Ordering::Relaxed)
}

/// We are not. The log hears of it once.
#[cold]
pub fn complain() {
    if !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
        context::log_warning("called on a thread other than the server's main thread: ignored");
    }
}

fn this() -> u64 {
    // SAFETY: asks for nothing.
    unsafe { libc::pthread_self() }
}
