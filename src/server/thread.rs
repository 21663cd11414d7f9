//! The server's own thread, on which it has loaded us, and on which everything of ours runs.
//!
//! A server has other threads: its own, which read and parse what clients send, and those of other
//! modules, which may run commands while they hold the server's lock. Nothing is done on these. What
//! the server tells us of there is left for its own thread, which finds it before it does anything
//! else of ours: it can't have run meanwhile. The same goes for what the server tells us in the middle
//! of a change of ours, because another module did something when it heard of that.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use redis_module::raw;

use super::ffi::constants::OK;
use super::ffi::context;
use super::module::{self, Module};

/// Something that has to be done on the server's own thread.
type Work = Box<dyn FnOnce(&Module) + Send>;

static OWN: AtomicU64 = AtomicU64::new(0);
static LEFT: Mutex<Vec<Work>> = Mutex::new(Vec::new());
/// Is there anything in `LEFT`? Asked each time that the server enters the module.
static ANY_LEFT: AtomicBool = AtomicBool::new(false);
/// How many calls of [`come_home`] the server has still to make.
static CALLS_AHEAD: AtomicU32 = AtomicU32::new(0);
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
        context::log_warning(
            "called on another thread than the server's own: nothing is done there",
        );
    }
}

/// Are we on the server's own thread, and not in the middle of a change to the locks? Another module
/// may hear of what our change does, and do something of which the server tells us within it.
pub fn is_free() -> bool {
    is_own() && module::with(Module::is_in_a_change) != Some(true)
}

/// Does this, here if we are on the server's own thread and in the middle of nothing; if not, leaves
/// it for a moment in which we are.
pub fn on_own(place: &'static str, work: impl FnOnce(&Module) + Send + 'static) {
    if is_free() {
        return module::enter(place, work);
    }
    left().push(Box::new(|module| {
        module::enter(place, |_| work(module));
        // Whatever is to follow, follows in a turn of our own.
        module.set_timer(module::now());
    }));
    ANY_LEFT.store(true, Ordering::Release);
    if is_own() {
        _ = module::with(Module::ask_for_the_next_turn);
        return;
    }
    complain();
    // The server wakes for this, however idle it is. It may be asked so on any thread.
    // SAFETY: the function is for ever, and the server wrote the address once.
    let asked = unsafe {
        raw::RedisModule_EventLoopAddOneShot
            .is_some_and(|add| add(Some(come_home), null_mut()) == OK)
    };
    if asked {
        CALLS_AHEAD.fetch_add(1, Ordering::Relaxed);
    }
}

/// Has nothing been left for the server's own thread?
#[inline]
pub fn nothing_is_left() -> bool {
    !ANY_LEFT.load(Ordering::Acquire)
}

/// What has been left for the server's own thread, in that order.
pub fn take_left() -> impl Iterator<Item = Work> {
    ANY_LEFT.store(false, Ordering::Relaxed);
    std::mem::take(&mut *left()).into_iter()
}

/// Will the server still call us for what was left for it?
pub fn is_called_for() -> bool {
    CALLS_AHEAD.load(Ordering::Relaxed) > 0
}

unsafe extern "C" fn come_home(_: *mut c_void) {
    CALLS_AHEAD.fetch_sub(1, Ordering::Relaxed);
    // It finds what was left before it does this nothing.
    module::enter("what was left by another thread", |_| ());
}

fn left() -> std::sync::MutexGuard<'static, Vec<Work>> {
    LEFT.lock().unwrap_or_else(PoisonError::into_inner)
}

fn this() -> u64 {
    // SAFETY: asks for nothing.
    unsafe { libc::pthread_self() }
}
