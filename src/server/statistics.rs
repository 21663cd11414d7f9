//! `INFO lock`.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use crate::lock::Locks;

use super::constants::OK;
use super::context::Ctx;
use super::module;

/// Has the server ask us when somebody asks it.
pub fn offer(ctx: Ctx<'_>) -> bool {
    // SAFETY: the context lives, and the function is for ever; the server wrote the address once.
    unsafe {
        raw::RedisModule_RegisterInfoFunc
            .is_some_and(|register| register(ctx.raw(), Some(report)) == OK)
    }
}

unsafe extern "C" fn report(info: *mut raw::RedisModuleInfoCtx, _: c_int) {
    module::enter("INFO", |module| {
        // In the middle of a change only if the server is dying.
        let Ok(locks) = module.locks.try_borrow() else {
            return;
        };
        // SAFETY: the server hands it to us for the length of this call; the name ends where it
        // should. The fields are then called by the module's name.
        let wanted = unsafe {
            raw::RedisModule_InfoAddSection.is_some_and(|section| section(info, c"".as_ptr()) == OK)
        };
        if wanted {
            for (name, value) in fields(&locks) {
                // SAFETY: as above.
                unsafe {
                    if let Some(add) = raw::RedisModule_InfoAddFieldULongLong {
                        add(info, name.as_ptr(), value);
                    }
                }
            }
        }
    });
}

fn fields(locks: &Locks) -> [(&'static CStr, u64); 21] {
    let counts = locks.counts();
    let (waiters, contended) = locks.waiting_now();
    let number = |number: usize| u64::try_from(number).unwrap_or_default();
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
        (c"deadlocks_total", counts.deadlocks),
        (c"undelivered_total", counts.undelivered),
        (c"guard_total", counts.guarded),
        (c"guard_refused_total", counts.guard_refused),
        (c"waiters", number(waiters)),
        (c"waiters_peak", counts.waiters_peak),
        (c"contended_keys", number(contended)),
        (c"wait_usec_p50", counts.waits.quantile(500)),
        (c"wait_usec_p99", counts.waits.quantile(990)),
        (c"wait_usec_p999", counts.waits.quantile(999)),
    ]
}
