//! No panic may cross into the server: it would take the whole database down.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use crate::server::ffi::context;

/// Runs what the server has called us for. A panic ends here: it is logged, and
/// `fallback` is what the server gets.
pub fn shield<T>(place: &str, fallback: impl FnOnce() -> T, work: impl FnOnce() -> T) -> T {
    // Our state may be halfway through a change, but each part of it is whole, and who holds a lock
    // stands in the key: going on is better than taking the server down. What is borrowed is given
    // back on the way here.
    let guarded = AssertUnwindSafe(|| {
        #[cfg(feature = "provoke")]
        crate::provoke::at(place);
        work()
    });
    catch_unwind(guarded).unwrap_or_else(|_| {
        context::log_warning(&format!("internal error in {place}; please report it"));
        fallback()
    })
}

/// The words of a panic go to the server's log from now on. By itself Rust would print them, and with
/// RUST_BACKTRACE in the environment it would look for the names of all functions on the stack, by
/// means that stop Valkey 9.1.
pub fn tell_the_log() {
    set_hook(Box::new(|panic| context::log_warning(&panic.to_string().replace('\n', " "))));
}

/// The words of a panic go where they went before we were loaded; the module may be unloaded then.
pub fn tell_the_log_no_more() {
    drop(take_hook());
}
