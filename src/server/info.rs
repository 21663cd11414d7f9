//! `INFO lock`: what has been done, and how much of it is remembered.

use std::cell::Cell;
use std::ffi::{CStr, c_int};

use super::ffi::api::{self, InfoCtx};
use super::ffi::{Ctx, OK};
use super::module::Module;
use super::{classes, instance, thread};
use crate::lock::Locks;

/// Has the server ask us when a client asks it.
pub fn offer(ctx: Ctx<'_>) -> bool {
    // SAFETY: the context lives, and the function lives as long as the module.
    unsafe { api::register_info_func(ctx.raw(), Some(report)) == OK }
}

unsafe extern "C" fn report(info: *mut InfoCtx, _: c_int) {
    let is_told = Cell::new(false);
    if thread::is_own() {
        instance::enter("INFO", |module| {
            let told = module.read(|locks| {
                // SAFETY: the server hands it to us for the length of this call.
                unsafe {
                    section(info, c"", &counted(locks));
                    section(info, c"memory", &remembered(module, locks));
                    classes::report(info, locks);
                    about(info);
                }
            });
            is_told.set(told.is_ok());
        });
    }
    if !is_told.get() {
        // Another module asks, on a thread of its own or in the middle of a change.
        // SAFETY: the server hands it to us for the length of this call.
        unsafe { section(info, c"", &[(c"unavailable", 1)]) };
    }
}

/// A section, and its fields if they are wanted. Its name follows the module's; so do those of
/// the fields.
///
/// # Safety
/// While the server asks for what this adds to.
unsafe fn section(info: *mut InfoCtx, name: &CStr, fields: &[(&CStr, u64)]) {
    // SAFETY: promised by our caller; the names end where they should.
    unsafe {
        if api::info_add_section(info, name.as_ptr()) == OK {
            for &(name, value) in fields {
                api::info_add_field_u_long_long(info, name.as_ptr(), value);
            }
        }
    }
}

/// Which module it is: its version, and the commit that it is built from.
///
/// # Safety
/// `info` must be what the server hands to an INFO callback.
unsafe fn about(info: *mut InfoCtx) {
    // SAFETY: promised by our caller; the texts are static.
    unsafe {
        if api::info_add_section(info, c"build".as_ptr()) == OK {
            let version = concat!(env!("CARGO_PKG_VERSION"), "\0");
            let commit = concat!(env!("LOCK_COMMIT"), "\0");
            api::info_add_field_c_string(info, c"version".as_ptr(), version.as_ptr().cast());
            api::info_add_field_c_string(info, c"commit".as_ptr(), commit.as_ptr().cast());
        }
    }
}

/// What is remembered. All of it is 0 when no lock is held or waited for, and a turn of the
/// server's loop has gone by.
fn remembered(module: &Module, locks: &Locks) -> [(&'static CStr, u64); 10] {
    let remembered = locks.remembered();
    [
        (c"memory_holds", number(remembered.holds)),
        (c"memory_sessions", number(remembered.sessions)),
        (c"memory_queues", number(remembered.queues)),
        (c"memory_waiters", number(remembered.waiters)),
        (c"memory_blocked", number(module.waiting.len())),
        (c"memory_owners", number(remembered.owners)),
        (c"memory_alarms", number(remembered.alarms)),
        (c"memory_tasks", number(remembered.tasks)),
        (c"memory_jobs", module.jobs.is_owed.get().into()),
        (c"memory_timers", module.timer.is_set().into()),
    ]
}

fn number(number: usize) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn counted(locks: &Locks) -> [(&'static CStr, u64); 34] {
    let counts = locks.counts();
    let (held, lost) = locks.held_and_lost();
    let waiting = &locks.waiting;
    let (waiters, contended) = (waiting.waits.lists().waiting(), waiting.queues.len());
    [
        (c"acquired_total", counts.acquired),
        (c"acquired_after_wait_total", counts.acquired_after_wait),
        (c"busy_total", counts.busy),
        (c"wait_timeouts_total", counts.wait_timeouts),
        (c"released_total", counts.released),
        (c"release_refused_total", counts.release_refused),
        (c"renewed_total", counts.renewed),
        (c"renew_refused_total", counts.renew_refused),
        (c"expired_total", counts.expired),
        (c"evicted_total", counts.evicted),
        (c"broken_total", counts.broken),
        (c"lost_total", lost),
        (c"held", held),
        (c"deadlocks_total", counts.deadlocks),
        (c"undelivered_total", counts.undelivered),
        (c"unacknowledged_total", counts.unacknowledged),
        (c"replicated_total", counts.replicated),
        (c"replicas_refused_total", counts.replicas_refused),
        (c"guard_total", counts.guarded),
        (c"guard_refused_total", counts.guard_refused),
        (c"unclaimed_total", counts.unclaimed),
        (c"places_lapsed_total", counts.places_lapsed),
        (c"notified_total", counts.notified),
        (c"waiters", number(waiters)),
        (c"waiters_peak", counts.waiters_peak),
        (c"places", number(waiting.waits.lists().places)),
        (c"queue_places", number(waiting.waits.lists().entries)),
        (c"contended_keys", number(contended)),
        (c"wait_usec_p50", counts.waits.quantile(500)),
        (c"wait_usec_p99", counts.waits.quantile(990)),
        (c"wait_usec_p999", counts.waits.quantile(999)),
        (c"replica_usec_p50", counts.replica_waits.quantile(500)),
        (c"replica_usec_p99", counts.replica_waits.quantile(990)),
        (c"replica_usec_p999", counts.replica_waits.quantile(999)),
    ]
}
