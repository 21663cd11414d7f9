//! What the server tells us of by itself. It does so in the middle of what it is doing, where
//! nothing may be written: we make a note, and act when it is through.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use redis_module::raw;

use crate::lock::{Db, Gone, Locks, NameRef};

use super::ffi::api::{self, Event, NotificationFn, RawCtx, RawString};
use super::ffi::constants::OK;
use super::ffi::context::{self, Ctx};
use super::ffi::text;
use super::module::{self, Module};
use super::thread;
use super::version::Server;

/// How a key goes, comes, or comes by another expiry.
const COMING_AND_GOING: c_int = raw::REDISMODULE_NOTIFY_GENERIC
    | raw::REDISMODULE_NOTIFY_EXPIRED
    | raw::REDISMODULE_NOTIFY_EVICTED;

/// How a key comes by another value and stays a lock. (Whatever turns it into a list, a set, a hash
/// or a stream frees no lock, and ends with an event of the other kind.)
const NEW_VALUES: c_int =
    raw::REDISMODULE_NOTIFY_STRING | raw::REDISMODULE_NOTIFY_ZSET | raw::REDISMODULE_NOTIFY_MODULE;

/// The events after which a key is not there any more.
const ENDS: [&CStr; 5] = [c"del", c"expired", c"evicted", c"rename_from", c"move_from"];

/// Asks the server to tell us of all that matters; on failure, of what it would not.
pub fn subscribe(ctx: Ctx<'_>, server: Server) -> Result<(), &'static str> {
    if !hear_of(ctx, COMING_AND_GOING, Some(key_event)) {
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
        events.push((
            raw::REDISMODULE_EVENT_CONFIG,
            Some(settings_changed),
            "settings",
        ));
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
        (module.hears_of_values).set(hear_of(ctx, NEW_VALUES, Some(value_event)));
    }
}

/// Holds end with their connections. From now on the server tells us of every connection that closes;
/// false if it won't.
pub fn hear_of_ends(module: &Module, ctx: Ctx<'_>) -> bool {
    if !module.hears_of_ends.get() {
        let id = raw::REDISMODULE_EVENT_CLIENT_CHANGE;
        let event = Event { id, dataver: 1 };
        // SAFETY: the context lives, and the function is for ever.
        let hears =
            unsafe { api::subscribe_to_server_event(ctx.raw(), event, Some(client_changed)) == OK };
        module.hears_of_ends.set(hears);
    }
    module.hears_of_ends.get()
}

/// Somebody waits. From now on the server tells us of each turn of its loop: it may close a connection
/// at the end of the turn in which a waiter has been granted its lock and replied.
pub fn hear_of_turns(module: &Module, ctx: Ctx<'_>) {
    if !module.hears_of_turns.get() {
        let id = raw::REDISMODULE_EVENT_EVENTLOOP;
        let event = Event { id, dataver: 1 };
        // SAFETY: the context lives, and the function is for ever.
        let hears = unsafe { api::subscribe_to_server_event(ctx.raw(), event, Some(turned)) == OK };
        module.hears_of_turns.set(hears);
    }
}

fn hear_of(ctx: Ctx<'_>, classes: c_int, function: NotificationFn) -> bool {
    // SAFETY: the context lives, and the function is for ever.
    unsafe { api::subscribe_to_keyspace_events(ctx.raw(), classes, function) == OK }
}

/// A key has gone, come, or come by another expiry.
unsafe extern "C" fn key_event(
    ctx: *mut RawCtx,
    class: c_int,
    event: *const c_char,
    key: *mut RawString,
) -> c_int {
    if !thread::is_own() {
        // SAFETY: the server hands all this to us for the length of this call.
        unsafe { heard_elsewhere(ctx, key) };
        return OK;
    }
    module::enter("a key's event", |module| {
        // SAFETY: as above.
        unsafe { heard(module, ctx, class, event, key, Locks::concerns) };
    });
    OK
}

/// A key has come by another value. What we remember of its hold then counts for nothing by itself,
/// so it matters only where somebody waits.
unsafe extern "C" fn value_event(
    ctx: *mut RawCtx,
    class: c_int,
    event: *const c_char,
    key: *mut RawString,
) -> c_int {
    if !thread::is_own() {
        // SAFETY: the server hands all this to us for the length of this call.
        unsafe { heard_elsewhere(ctx, key) };
        return OK;
    }
    module::enter("a value's event", |module| {
        if module.waiting.borrow().is_empty() {
            return;
        }
        // SAFETY: as above.
        unsafe { heard(module, ctx, class, event, key, Locks::is_waited_for) };
    });
    OK
}

/// Makes a note of what has happened to a key, if it matters.
///
/// # Safety
/// Called with what the server hands to us, for the length of that call.
unsafe fn heard(
    module: &Module,
    ctx: *mut RawCtx,
    class: c_int,
    event: *const c_char,
    key: *mut RawString,
    matters: fn(&Locks, NameRef<'_>) -> bool,
) {
    if module.is_announcing(key, event) {
        return;
    }
    // SAFETY: promised by our caller; an event's name ends where it should.
    let (ctx, key, event) = unsafe { (Ctx::new(ctx), text::bytes(key), CStr::from_ptr(event)) };
    let name = NameRef { db: ctx.db(), key };
    let mut at_once = !may_be_on_a_walk(module, class, event);
    match module.locks.try_borrow_mut() {
        Ok(locks) if !matters(&locks, name) => return,
        Ok(mut locks) if ENDS.contains(&event) => {
            // The last field of a hash may have run out by itself: outside of any command, where a
            // job would not be run until the next one, and in the middle of a walk through others.
            at_once &= !locks.may_be_no_lock(name);
            let how = match class {
                raw::REDISMODULE_NOTIFY_EXPIRED => Gone::Expired,
                raw::REDISMODULE_NOTIFY_EVICTED => Gone::Evicted,
                _ => Gone::Otherwise,
            };
            locks.gone(name.keep(), how);
        }
        // In the middle of a change of ours we can't ask, and may note too much.
        _ => _ = module.touched.borrow_mut().insert(name.keep()),
    }
    ask_for_a_turn(module, at_once);
}

/// The same, where another module's thread has done it.
///
/// # Safety
/// Called with what the server hands to us, for the length of that call.
unsafe fn heard_elsewhere(ctx: *mut RawCtx, key: *mut RawString) {
    // SAFETY: promised by our caller.
    let (db, key) = unsafe { (Ctx::new(ctx).db(), text::bytes(key).to_vec()) };
    thread::on_own("a key's event", move |module| {
        let name = NameRef { db, key: &key };
        if module.locks.borrow().concerns(name) {
            _ = module.touched.borrow_mut().insert(name.keep());
        }
    });
}

/// May the server be on a walk through many keys? It would run a job after each of them. While it
/// evicts, it might evict the new hold next. While it looks for what has expired, or drops the keys of
/// a slot that has left, it knows the place of the neighbour already: a job that takes the neighbour
/// away makes it crash.
fn may_be_on_a_walk(module: &Module, class: c_int, event: &CStr) -> bool {
    class & (raw::REDISMODULE_NOTIFY_EVICTED | raw::REDISMODULE_NOTIFY_EXPIRED) != 0
        || (event == c"del" && module.in_cluster)
}

/// Has the server call us when it is through with what it is doing: at the very end of that, if it
/// can do so and `at_once` asks for it, or else in the next turn of its loop.
fn ask_for_a_turn(module: &Module, at_once: bool) {
    if module.job_ahead.get() {
        return;
    }
    if at_once && module.master.get() {
        // SAFETY: the context lives, there is no data, and the server wrote the address once.
        let accepted = unsafe {
            raw::RedisModule_AddPostNotificationJob
                .is_some_and(|add| add(module.own().raw(), Some(job), null_mut(), None) == OK)
        };
        if accepted {
            module.job_ahead.set(true);
            module.jobs.set(module.jobs.get().saturating_add(1));
            return;
        }
    }
    module.set_timer(module::now());
}

unsafe extern "C" fn job(_: *mut RawCtx, _: *mut c_void) {
    // Before all else: a job that seems to be ahead keeps the module from being unloaded.
    _ = module::with(|module| {
        module.jobs.set(module.jobs.get().saturating_sub(1));
        module.forget_job();
    });
    module::enter("a job", |module| {
        module.tick();
    });
}

unsafe extern "C" fn flushed(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
        return;
    }
    // SAFETY: this is what the event comes with, for the length of this call.
    let info = unsafe { data.cast::<raw::RedisModuleFlushInfoV1>().as_ref() };
    let db = info.and_then(|info| Db::try_from(info.dbnum).ok());
    thread::on_own("a flush", move |module| {
        module.locks_with_notes().flushed(db);
        ask_for_a_turn(module, true);
    });
}

unsafe extern "C" fn swapped(_: *mut RawCtx, _: Event, _: u64, data: *mut c_void) {
    // SAFETY: this is what the event comes with, for the length of this call.
    let info = unsafe { data.cast::<raw::RedisModuleSwapDbInfoV1>().as_ref() };
    let dbs = info.map(|info| {
        (
            Db::try_from(info.dbnum_first),
            Db::try_from(info.dbnum_second),
        )
    });
    let Some((Ok(one), Ok(other))) = dbs else {
        return;
    };
    thread::on_own("a swap", move |module| {
        module.locks_with_notes().swapped(one, other);
        ask_for_a_turn(module, true);
    });
}

unsafe extern "C" fn loading(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    let through = [
        raw::REDISMODULE_SUBEVENT_LOADING_ENDED,
        raw::REDISMODULE_SUBEVENT_LOADING_FAILED,
    ];
    if !through.contains(&sub) {
        return;
    }
    thread::on_own("loading", |module| {
        let now = module::now();
        module.locks_with_notes().took_over(now);
        module.set_timer(now);
    });
}

/// This may come in the middle of anything, and nothing may be written in it.
unsafe extern "C" fn client_changed(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED {
        return;
    }
    // SAFETY: this is what the event comes with, for the length of this call.
    let info = unsafe { data.cast::<raw::RedisModuleClientInfoV1>().as_ref() };
    let Some(client) = info.map(|info| info.id) else {
        return;
    };
    thread::on_own("a connection's end", move |module| {
        if module.locks.borrow_mut().closed(client) {
            module.ask_for_the_next_turn();
        }
    });
}

/// The server has closed what it meant to close in the last turn, and has not read what clients have
/// sent since: a connection that is gone now is one that it closed by itself.
unsafe extern "C" fn turned(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP {
        return;
    }
    module::enter("a turn's end", |module| {
        if !module.locks.borrow().has_unconfirmed() {
            return;
        }
        module.locks.borrow_mut().confirm(context::lives);
        module.set_timer(module::now());
    });
}

unsafe extern "C" fn slots_moved(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_MIGRATE_COMPLETED {
        return;
    }
    // SAFETY: this is what the event comes with, for the length of this call: a list of ranges
    // behind its own length.
    let ranges: &[raw::RedisModuleSlotRange] = unsafe {
        let info = data.cast::<raw::RedisModuleClusterSlotMigrationInfoV1>();
        match info.as_ref().map(|info| info.slots) {
            Some(list) if !list.is_null() => {
                let count = usize::try_from((*list).num_ranges).unwrap_or_default();
                std::slice::from_raw_parts((&raw const (*list).ranges).cast(), count)
            }
            _ => &[],
        }
    };
    let ranges = ranges.to_vec();
    thread::on_own("slots that move", move |module| {
        let ranges: Vec<_> = (ranges.iter())
            .map(|range| range.start..=range.end)
            .collect();
        module.locks_with_notes().slots_left(&ranges);
    });
}

unsafe extern "C" fn modules_changed(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    // SAFETY: this is what the event comes with, for the length of this call; a module's name ends
    // where it should.
    let name = unsafe {
        let change = data.cast::<raw::RedisModuleModuleChangeV1>().as_ref();
        change.map(|change| CStr::from_ptr(change.module_name).to_owned())
    };
    thread::on_own("a change of modules", move |module| {
        module.origins.forget();
        match (name, sub) {
            (Some(name), raw::REDISMODULE_SUBEVENT_MODULE_LOADED) => module.audience.joined(&name),
            (Some(name), _) => module.audience.left(&name),
            (None, _) => {}
        }
    });
}

unsafe extern "C" fn settings_changed(_: *mut RawCtx, _: Event, _: u64, _: *mut c_void) {
    thread::on_own("changed settings", |module| {
        module.slow_waits.forget_threshold()
    });
}

unsafe extern "C" fn role_changed(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    thread::on_own("a change of roles", move |module| {
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
}
