//! What the server tells us of by itself. It does so in the middle of what it is doing, where
//! nothing may be written: we make a note, and act when it is through.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use redis_module::raw;

use crate::lock::{Db, NameRef};

use super::api::{self, Event, RawCtx, RawString};
use super::constants::OK;
use super::context::Ctx;
use super::module::{self, Module};
use super::shield::shield;
use super::text;
use super::version::Server;

/// How a key goes, comes, or comes by another expiry.
const COMING_AND_GOING: c_int = raw::REDISMODULE_NOTIFY_GENERIC
    | raw::REDISMODULE_NOTIFY_EXPIRED
    | raw::REDISMODULE_NOTIFY_EVICTED;

/// How a key comes by another value and stays a lock. (Whatever turns it into a list, a set, a hash
/// or a stream frees no lock, and ends with an event of the other kind.)
const NEW_VALUES: c_int = raw::REDISMODULE_NOTIFY_STRING | raw::REDISMODULE_NOTIFY_MODULE;

/// Asks the server to tell us of all that matters; on failure, of what it would not.
pub fn subscribe(ctx: Ctx<'_>, server: Server) -> Result<(), &'static str> {
    if !hear_of(ctx, COMING_AND_GOING) {
        return Err("changes to keys");
    }
    // SAFETY: the context lives, and the functions are for ever.
    unsafe {
        let mut events: Vec<(u64, api::EventFn, &str)> = vec![
            (
                raw::REDISMODULE_EVENT_FLUSHDB,
                Some(flushed),
                "emptied databases",
            ),
            (
                raw::REDISMODULE_EVENT_SWAPDB,
                Some(swapped),
                "swapped databases",
            ),
            (raw::REDISMODULE_EVENT_LOADING, Some(loading), "loading"),
            (
                raw::REDISMODULE_EVENT_MODULE_CHANGE,
                Some(modules_changed),
                "other modules",
            ),
            (
                raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
                Some(role_changed),
                "its role",
            ),
        ];
        if server.moves_slots_silently() {
            let id = raw::REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION;
            events.push((id, Some(slots_moved), "slots that move"));
        }
        for (id, function, what) in events {
            let event = Event { id, dataver: 1 };
            if api::subscribe_to_server_event(ctx.raw(), event, function) != OK {
                return Err(what);
            }
        }
    }
    Ok(())
}

/// Somebody waits. From now on new values matter too: a waiter may come to hold its lock by one.
/// Not before, because every SET of everybody pays for our hearing of it.
pub fn hear_of_values(module: &Module, ctx: Ctx<'_>) {
    if !module.hears_of_values.get() {
        module.hears_of_values.set(hear_of(ctx, NEW_VALUES));
    }
}

fn hear_of(ctx: Ctx<'_>, classes: c_int) -> bool {
    // SAFETY: the context lives, and the function is for ever.
    unsafe { api::subscribe_to_keyspace_events(ctx.raw(), classes, Some(key_event)) == OK }
}

unsafe extern "C" fn key_event(
    ctx: *mut RawCtx,
    class: c_int,
    _event: *const c_char,
    key: *mut RawString,
) -> c_int {
    shield(
        "a key's event",
        || (),
        || {
            module::with(|module| {
                if module.is_announcing(key) {
                    return;
                }
                // SAFETY: the server hands both to us for the length of this call.
                let (ctx, bytes) = unsafe { (Ctx::new(ctx), text::bytes(key)) };
                let name = NameRef {
                    db: ctx.db(),
                    key: bytes,
                };
                // In the middle of a change of ours we can't ask, and may note too much.
                let matters = module
                    .locks
                    .try_borrow()
                    .map_or(true, |locks| locks.concerns(name));
                if matters {
                    module.touched.borrow_mut().push(name.keep());
                    // The server would run the job after each key that it evicts, and might evict the
                    // new hold next.
                    let at_once = class != raw::REDISMODULE_NOTIFY_EVICTED;
                    ask_for_a_turn(module, ctx, at_once);
                }
            });
        },
    );
    OK
}

/// Has the server call us when it is through with what it is doing: at the very end of that, if it
/// can do so and `at_once` asks for it, or else in the next turn of its loop.
fn ask_for_a_turn(module: &Module, ctx: Ctx<'_>, at_once: bool) {
    if module.job_ahead.get() {
        return;
    }
    if at_once && module.master.get() {
        // SAFETY: the context lives, there is no data, and the server wrote the address once.
        let accepted = unsafe {
            raw::RedisModule_AddPostNotificationJob
                .is_some_and(|add| add(ctx.raw(), Some(job), null_mut(), None) == OK)
        };
        if accepted {
            module.job_ahead.set(true);
            return;
        }
    }
    module.set_timer(module::now());
}

unsafe extern "C" fn job(_: *mut RawCtx, _: *mut c_void) {
    shield(
        "a job",
        || (),
        || {
            module::with(|module| {
                module.forget_job();
                module.tick();
            });
        },
    );
}

unsafe extern "C" fn flushed(ctx: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
        return;
    }
    shield(
        "a flush",
        || (),
        || {
            // SAFETY: this is what the event comes with, for the length of this call.
            let (ctx, db) = unsafe {
                let info = data.cast::<raw::RedisModuleFlushInfoV1>();
                (Ctx::new(ctx), info.as_ref().map_or(-1, |info| info.dbnum))
            };
            module::with(|module| {
                module.locks_with_notes().flushed(Db::try_from(db).ok());
                ask_for_a_turn(module, ctx, true);
            });
        },
    );
}

unsafe extern "C" fn swapped(ctx: *mut RawCtx, _: Event, _: u64, data: *mut c_void) {
    shield(
        "a swap",
        || (),
        || {
            // SAFETY: this is what the event comes with, for the length of this call.
            let (ctx, info) = unsafe {
                (
                    Ctx::new(ctx),
                    data.cast::<raw::RedisModuleSwapDbInfoV1>().as_ref(),
                )
            };
            let Some(info) = info else { return };
            let (Ok(one), Ok(other)) = (
                Db::try_from(info.dbnum_first),
                Db::try_from(info.dbnum_second),
            ) else {
                return;
            };
            module::with(|module| {
                module.locks_with_notes().swapped(one, other);
                ask_for_a_turn(module, ctx, true);
            });
        },
    );
}

unsafe extern "C" fn loading(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    let through = [
        raw::REDISMODULE_SUBEVENT_LOADING_ENDED,
        raw::REDISMODULE_SUBEVENT_LOADING_FAILED,
    ];
    if !through.contains(&sub) {
        return;
    }
    shield(
        "loading",
        || (),
        || {
            module::with(|module| {
                let now = module::now();
                module.locks_with_notes().took_over(now);
                module.set_timer(now);
            });
        },
    );
}

unsafe extern "C" fn slots_moved(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_MIGRATE_COMPLETED {
        return;
    }
    shield(
        "slots that move",
        || (),
        || {
            // SAFETY: this is what the event comes with, for the length of this call: a list of ranges
            // behind its own length.
            let ranges = unsafe {
                let info = data.cast::<raw::RedisModuleClusterSlotMigrationInfoV1>();
                match info.as_ref().map(|info| info.slots) {
                    Some(list) if !list.is_null() => {
                        let count = usize::try_from((*list).num_ranges).unwrap_or_default();
                        std::slice::from_raw_parts((&raw const (*list).ranges).cast(), count)
                    }
                    _ => &[],
                }
            };
            module::with(|module| {
                let mut locks = module.locks_with_notes();
                for range in ranges {
                    let range: &raw::RedisModuleSlotRange = range;
                    locks.slots_left(range.start.into()..=range.end.into());
                }
            });
        },
    );
}

unsafe extern "C" fn modules_changed(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    shield(
        "a change of modules",
        || (),
        || {
            // SAFETY: this is what the event comes with, for the length of this call; a module's name
            // ends where it should.
            let name = unsafe {
                let change = data.cast::<raw::RedisModuleModuleChangeV1>().as_ref();
                change.map(|change| CStr::from_ptr(change.module_name))
            };
            let Some(name) = name else { return };
            module::with(|module| match sub {
                raw::REDISMODULE_SUBEVENT_MODULE_LOADED => module.audience.joined(name),
                _ => module.audience.left(name),
            });
        },
    );
}

unsafe extern "C" fn role_changed(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    shield(
        "a change of roles",
        || (),
        || {
            module::with(|module| {
                let now = module::now();
                let master = sub == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER;
                module.master.set(master);
                if master {
                    module.locks_with_notes().took_over(now);
                } else {
                    module.locks_with_notes().stepped_down();
                }
                module.set_timer(now);
            });
        },
    );
}
