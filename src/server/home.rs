//! Where the module lives while it is loaded, and how the server enters it: on its own thread, and so that no
//! panic comes out.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr::null_mut;

use redis_module::raw;

use super::ffi::{OK, shield};
use super::inbox::{self, Note};
use super::module::Module;
use super::thread;

struct Home {
    module: UnsafeCell<Option<Module>>,
    /// How many calls of [`with`] are on the stack.
    uses: Cell<usize>,
}

// SAFETY: `with`, `install` and `remove` keep all threads out but the server's own.
unsafe impl Sync for Home {}

static HOME: Home = Home { module: UnsafeCell::new(None), uses: Cell::new(0) };

/// Something of ours is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

/// One use of the module, until it is dropped.
struct Use;

impl Use {
    fn begin() -> Self {
        HOME.uses.set(HOME.uses.get().saturating_add(1));
        Self
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        HOME.uses.set(HOME.uses.get().saturating_sub(1));
    }
}

/// Does something with the module, if it is loaded, and if this is the server's own thread.
pub fn with<T>(work: impl FnOnce(&Module) -> T) -> Option<T> {
    if !thread::is_own() {
        thread::complain();
        return None;
    }
    let _use = Use::begin();
    // SAFETY: this is the server's own thread. `install` and `remove` write nothing while there is a
    // use.
    let module = unsafe { &*HOME.module.get() }.as_ref()?;
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

/// The server tells us this. It is acted on at once where that is possible, or else when the
/// [inbox](super::inbox) is read.
pub fn hear(note: Note) {
    let mut note = Some(note);
    _ = with(|module| {
        if let Some(note) = note.take_if(|_| !module.is_in_a_change()) {
            module.act_on(note);
            module.read_inbox();
        }
    });
    if let Some(note) = note {
        inbox::leave(note);
    }
    if !thread::is_own() {
        ask_for_a_call();
    }
}

/// Has the server call us on its own thread, however idle it is. It may be asked so on any thread.
fn ask_for_a_call() {
    // SAFETY: the function is for ever, and the server wrote the address once.
    let asked = unsafe {
        raw::RedisModule_EventLoopAddOneShot.is_some_and(|add| add(Some(called), null_mut()) == OK)
    };
    if asked {
        inbox::call_asked();
    }
}

unsafe extern "C" fn called(_: *mut c_void) {
    inbox::call_came();
    // Entering reads the inbox. There is nothing else to do.
    enter("what was left by another thread", |_| ());
}

/// The module is loaded.
pub fn install(module: Module) -> Result<(), InUse> {
    remove()?;
    // SAFETY: `remove` has made sure that this is the server's own thread and that there is no use.
    unsafe { *HOME.module.get() = Some(module) };
    Ok(())
}

/// The module is unloaded, unless anything of ours is running: another module may unload this one from
/// within a call that we have made.
pub fn remove() -> Result<(), InUse> {
    if !thread::is_own() || HOME.uses.get() > 0 {
        return Err(InUse);
    }
    // SAFETY: this is the server's own thread, and there is no use.
    drop(unsafe { (*HOME.module.get()).take() });
    Ok(())
}
