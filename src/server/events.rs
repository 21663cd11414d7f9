//! What the server tells us of by itself. It does so in the middle of what it is doing, where
//! nothing may be written: we remember it, and act when the server is through.

use std::ffi::{CStr, c_char, c_int, c_void};

use redis_module::raw;

use super::ffi::api::{Event, EventFn};
use super::ffi::{Ctx, OK, RawCtx, RawString, text};
use super::instance::{self, hear, hear_touched};
use super::module::{InAChange, Module};
use super::subscriptions::{Events, Kind};
use super::version::Server;
use super::{clock, thread};
use crate::lock::{Db, Locks, NameRef, Reason};

/// The events after which a key is not there any more.
const ENDS: [&CStr; 5] = [c"del", c"expired", c"evicted", c"rename_from", c"move_from"];

/// Asks the server to tell us of what matters even without any lock; on failure, what it won't tell us of.
pub fn subscribe(ctx: Ctx<'_>, server: Server) -> Result<(), &'static str> {
    let always: [(u64, EventFn, &str); 6] = [
        (raw::REDISMODULE_EVENT_FLUSHDB, Some(flushed), "emptied databases"),
        (raw::REDISMODULE_EVENT_SWAPDB, Some(swapped), "swapped databases"),
        (raw::REDISMODULE_EVENT_LOADING, Some(loading), "loading"),
        (raw::REDISMODULE_EVENT_MODULE_CHANGE, Some(modules_changed), "other modules"),
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, Some(role_changed), "its role"),
        (raw::REDISMODULE_EVENT_CONFIG, Some(settings_changed), "settings"),
    ];
    let slots: (u64, EventFn, &str) =
        (raw::REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION, Some(slots_moved), "slots that move");
    let slots = server.moves_slots_silently().then_some(slots);
    for (id, function, what) in always.into_iter().chain(slots) {
        if !Events::of(Kind::Server(id, function)).ask_for(ctx) {
            return Err(what);
        }
    }
    Ok(())
}

/// A key has gone, come, or come by another expiry.
pub unsafe extern "C" fn key_event(
    ctx: *mut RawCtx,
    class: c_int,
    event: *const c_char,
    key: *mut RawString,
) -> c_int {
    // SAFETY: the server hands all this to us for the length of this call.
    unsafe {
        enter("a key's event", ctx, key, |module| {
            heard(module, ctx, class, event, key, Locks::concerns);
        })
    }
}

/// A key has come by another value. What we remember of its hold then counts for nothing by itself,
/// so it matters only where a client waits.
pub unsafe extern "C" fn value_event(
    ctx: *mut RawCtx,
    class: c_int,
    event: *const c_char,
    key: *mut RawString,
) -> c_int {
    // SAFETY: the server hands all this to us for the length of this call.
    unsafe {
        enter("a value's event", ctx, key, |module| {
            if !module.needs_values() {
                return module.subscriptions.heard_in_vain();
            }
            heard(module, ctx, class, event, key, |locks, name| {
                locks.waiting.queues.contains(name)
            });
        })
    }
}

/// Something has happened to a key. If that was on another thread, by another module, we only note which key.
///
/// # Safety
/// Called with what the server hands to us, for the length of that call.
unsafe fn enter(
    place: &str,
    ctx: *mut RawCtx,
    key: *mut RawString,
    work: impl FnOnce(&Module),
) -> c_int {
    if thread::is_own() {
        instance::enter(place, work);
    } else {
        // SAFETY: promised by our caller.
        let (db, key) = unsafe { (Ctx::new(ctx).db(), text::bytes(key)) };
        hear_touched(db, key);
    }
    OK
}

/// Tells the core what has happened to a key, if it matters.
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
    if module.listeners.is_announcing(key, event) {
        return;
    }
    let has_expired = class == raw::REDISMODULE_NOTIFY_EXPIRED;
    let is_opening = has_expired && module.expired.is_opening(key);
    // SAFETY: promised by our caller.
    let db = unsafe { Ctx::new(ctx).db() };
    if !is_opening && module.read(|locks| locks.remember_nothing(Some(db))) == Ok(true) {
        return module.subscriptions.heard_in_vain();
    }
    // SAFETY: promised by our caller.
    let key = unsafe { text::bytes(key) };
    // The core is in the middle of looking at it, and sees by itself that it has gone.
    if is_opening {
        return module.expired.note(db, key);
    }
    let name = module.read(|locks| Some(locks.name(db, key)).filter(|&name| matters(locks, name)));
    if name == Ok(None) {
        return;
    }
    // SAFETY: promised by our caller; an event's name ends where it should.
    let event = unsafe { CStr::from_ptr(event) };
    let mut at_once = !may_be_on_a_walk(module, class, event);
    let now = clock::now();
    let changed = module.change(|locks| {
        let name = name.ok().flatten().unwrap_or_else(|| locks.name(db, key));
        if !ENDS.contains(&event) {
            return locks.touched(name.keep(), now);
        }
        // The last field of a hash may have run out by itself: outside of any command, where a
        // job would not be run until the next one, and in the middle of a walk through others.
        at_once &= !locks.waiting.queues.may_be_no_lock(name);
        let why = match class {
            raw::REDISMODULE_NOTIFY_EXPIRED => Reason::Expired,
            raw::REDISMODULE_NOTIFY_EVICTED => Reason::Evicted,
            _ if event == c"rename_from" || event == c"move_from" => Reason::Renamed,
            _ => Reason::Deleted,
        };
        locks.gone(name.keep(), why, now);
    });
    match changed {
        Ok(()) => module.ask_for_a_turn(at_once),
        // What the change makes of the key is not known yet, so it is looked at anew.
        Err(InAChange) if has_expired => {
            module.expired.note(db, key);
            let key = Box::<[u8]>::from(key);
            hear("a key's event", move |module, now| module.look_again(db, &key, now));
        }
        Err(InAChange) => hear_touched(db, key),
    }
}

/// May the server be on a walk through many keys? It would run a job after each of them. While it
/// evicts, it might evict the new hold next. While it looks for what has expired, or drops the keys of
/// a slot that has left, it knows the place of the neighbour already: a job that takes the neighbour
/// away makes it crash.
fn may_be_on_a_walk(module: &Module, class: c_int, event: &CStr) -> bool {
    class & (raw::REDISMODULE_NOTIFY_EVICTED | raw::REDISMODULE_NOTIFY_EXPIRED) != 0
        || (event == c"del" && module.cluster.is_on())
}

unsafe extern "C" fn flushed(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
        return;
    }
    // SAFETY: this is what the event comes with, for the length of this call.
    let info = unsafe { data.cast::<raw::RedisModuleFlushInfoV1>().as_ref() };
    let db = info.and_then(|info| Db::try_from(info.dbnum).ok());
    hear("a flush", move |module, now| {
        _ = module.change_alone(|locks| {
            // A replica's keys may only be read anew, from its master.
            if module.is_master.get() {
                locks.lost_by_flush(db, now);
            }
            locks.flushed(db);
        });
        module.ask_for_a_turn(true);
    });
}

unsafe extern "C" fn swapped(_: *mut RawCtx, _: Event, _: u64, data: *mut c_void) {
    // SAFETY: this is what the event comes with, for the length of this call.
    let info = unsafe { data.cast::<raw::RedisModuleSwapDbInfoV1>().as_ref() };
    let dbs = info.map(|info| (Db::try_from(info.dbnum_first), Db::try_from(info.dbnum_second)));
    let Some((Ok(one), Ok(other))) = dbs else {
        return;
    };
    hear("a swap", move |module, _| {
        _ = module.change_alone(|locks| [one, other].map(|db| locks.flushed(Some(db))));
        module.ask_for_a_turn(true);
    });
}

unsafe extern "C" fn loading(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    let through =
        [raw::REDISMODULE_SUBEVENT_LOADING_ENDED, raw::REDISMODULE_SUBEVENT_LOADING_FAILED];
    if through.contains(&sub) {
        hear("loading", |module, now| module.note_change(now, |locks| locks.took_over(now)));
    }
}

/// This may come in the middle of anything, and nothing may be written in it.
pub unsafe extern "C" fn client_changed(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED {
        return;
    }
    // SAFETY: this is what the event comes with, for the length of this call.
    let info = unsafe { data.cast::<raw::RedisModuleClientInfoV1>().as_ref() };
    if let Some(client) = info.map(|info| info.id) {
        hear("a connection's end", move |module, now| {
            if module.change_alone(|locks| locks.outcomes().closed(client)) == Ok(true) {
                module.ring_at(Some(0), now);
            }
        });
    }
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
    let ranges: Vec<_> = ranges.iter().map(|range| range.start..=range.end).collect();
    // What is remembered of them is forgotten in portions.
    hear("slots that move", move |module, now| {
        module.note_change(now, |locks| locks.slots_left(&ranges, now));
    });
}

unsafe extern "C" fn modules_changed(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    // SAFETY: this is what the event comes with, for the length of this call; a module's name ends
    // where it should.
    let name = unsafe {
        let change = data.cast::<raw::RedisModuleModuleChangeV1>().as_ref();
        change.map(|change| CStr::from_ptr(change.module_name).to_owned())
    };
    let Some(name) = name else { return };
    let loaded = sub == raw::REDISMODULE_SUBEVENT_MODULE_LOADED;
    hear("a change of modules", move |module, _| {
        module.origins.forget();
        module.listeners.changed(&name, loaded);
    });
}

unsafe extern "C" fn settings_changed(_: *mut RawCtx, _: Event, _: u64, _: *mut c_void) {
    hear("changed settings", Module::take_settings);
}

unsafe extern "C" fn role_changed(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    let master = sub == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER;
    hear("a change of roles", move |module, now| {
        module.is_master.set(master);
        module.note_change(now, |locks| match master {
            true => locks.took_over(now),
            false => locks.stepped_down(),
        });
    });
}
