//! Where the module lives while it is loaded, and how the server enters it: on its own thread, and so that no
//! panic comes out.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ffi::{OK, api, shield};
use super::module::Module;
use super::{inbox, thread};
use crate::lock::{Db, Now};

struct Instance(RefCell<Option<Module>>);

// SAFETY: `with`, `install` and `remove` keep all threads out but the server's own.
unsafe impl Sync for Instance {}

/// Borrowed by each call of [`with`] that is on the stack.
static INSTANCE: Instance = Instance(RefCell::new(None));

/// How many calls the server has still to make because of notes that other threads have left.
static CALLS_AHEAD: AtomicU32 = AtomicU32::new(0);

/// Does something with the module, if it is loaded, and if this is the server's own thread.
pub fn with<T>(work: impl FnOnce(&Module) -> T) -> Option<T> {
    if !thread::is_own() {
        thread::complain();
        return None;
    }
    let instance = INSTANCE.0.try_borrow().ok()?;
    let module = instance.as_ref()?;
    module.read_inbox();
    Some(work(module))
}

/// Does what the server has called us for, with the module; no panic comes out of it.
pub fn enter(place: &str, work: impl FnOnce(&Module)) {
    shield(place, recover, || _ = with(work));
}

/// A panic has cut something short.
pub fn recover() {
    let rest = || _ = with(Module::see_to_the_rest);
    shield("recovering", || (), rest);
}

/// The server tells us something, by the name that the log calls it. It is acted on at once where that is possible,
/// behind what is in the [inbox], or else when that is read.
pub fn hear(place: &'static str, act: impl FnOnce(&Module, Now) + Send + 'static) {
    let mut act = Some(act);
    _ = with(|module| {
        if !module.is_in_a_change() {
            act.take().into_iter().for_each(|act| module.act(place, act));
        }
        module.read_inbox();
    });
    if let Some(act) = act {
        inbox::leave(place, Box::new(act));
        be_called();
    }
}

/// Something has happened to a key, and it can't be acted on now.
pub fn hear_touched(db: Db, key: &[u8]) {
    inbox::leave_touched(db, key);
    be_called();
}

/// The inbox is read at the end of the change that we are in. On another thread the server is asked to call us on its
/// own, however idle that is.
fn be_called() {
    if !thread::is_own()
        // SAFETY: the function is static.
        && unsafe { api::event_loop_add_one_shot(Some(called), null_mut()) } == OK
    {
        CALLS_AHEAD.fetch_add(1, Ordering::Relaxed);
    }
}

unsafe extern "C" fn called(_: *mut c_void) {
    CALLS_AHEAD.fetch_sub(1, Ordering::Relaxed);
    // Entering reads the inbox. There is nothing else to do.
    enter("what was left by another thread", |_| ());
}

/// Will the server still call us because of notes?
pub fn is_called_for() -> bool {
    CALLS_AHEAD.load(Ordering::Relaxed) > 0
}

/// The module is loaded, unless one is running.
pub fn install(module: Module) -> Option<()> {
    remove()?;
    *INSTANCE.0.try_borrow_mut().ok()? = Some(module);
    Some(())
}

/// The module is unloaded, unless anything of ours is running: another module may unload this one from
/// within a call that we have made.
pub fn remove() -> Option<()> {
    if !thread::is_own() {
        return None;
    }
    // It goes when the borrow has ended, because the server may call us back meanwhile.
    let module = INSTANCE.0.try_borrow_mut().ok()?.take();
    drop(module);
    Some(())
}
