//! What the server tells us of by itself. It does so in the middle of what it is doing, where
//! nothing may be written: we remember it, and act when the server is through.

use std::ffi::{CStr, c_char, c_int, c_void};

use redis_module::raw;

use crate::lock::{Db, Gone, Locks, NameRef};

use super::clock;
use super::ffi::api::{self, Event, NotificationFn, RawCtx, RawString};
use super::ffi::constants::OK;
use super::ffi::context::{self, Ctx};
use super::ffi::text;
use super::inbox::Note;
use super::module::{self, InAChange, Module};
use super::notes::hear;
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

/// Those of them after which the value is elsewhere.
const MOVES: [&CStr; 2] = [c"rename_from", c"move_from"];

/// So many events are heard in vain before they are given back.
const IN_VAIN: u32 = 100;

/// Asks the server to tell us of what matters without any lock too; on failure, of what it would not.
pub fn subscribe(ctx: Ctx<'_>, server: Server) -> Result<(), &'static str> {
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

/// Somebody asks about a lock. From now on the server tells us of keys that come and go; false if
/// it won't. Not before, because every DEL and every expiry of everybody pays for our hearing of it.
pub fn hear_of_keys(module: &Module, ctx: Ctx<'_>) -> bool {
    if !module.hears_of_keys.get() {
        (module.hears_of_keys).set(hear_of(ctx, COMING_AND_GOING, Some(key_event)));
    }
    module.hears_of_keys.get()
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
/// at the end of the turn in which a waiter has been granted its lock and replied to.
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
        if needs_no_values(module) {
            return heard_in_vain(module);
        }
        // SAFETY: as above.
        unsafe { heard(module, ctx, class, event, key, Locks::is_waited_for) };
    });
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
    if module.is_announcing(key, event) {
        return;
    }
    let has_expired = class == raw::REDISMODULE_NOTIFY_EXPIRED;
    let is_opening = has_expired && module.is_opening(key);
    // SAFETY: promised by our caller.
    let db = unsafe { Ctx::new(ctx).db() };
    if !is_opening && module.read(|locks| locks.remember_nothing_of(db)) == Ok(true) {
        return heard_in_vain(module);
    }
    // SAFETY: as above.
    let key = unsafe { text::bytes(key) };
    let name = NameRef { db, key };
    // The core sees by itself that it has gone.
    if is_opening {
        return module.note_expired(name);
    }
    if module.read(|locks| matters(locks, name)) == Ok(false) {
        return;
    }
    // SAFETY: promised by our caller; an event's name ends where it should.
    let event = unsafe { CStr::from_ptr(event) };
    let mut at_once = !may_be_on_a_walk(module, class, event);
    let now = clock::now();
    let changed = module.change(|locks| {
        if !ENDS.contains(&event) {
            return locks.touched(name.keep(), now);
        }
        // The last field of a hash may have run out by itself: outside of any command, where a
        // job would not be run until the next one, and in the middle of a walk through others.
        at_once &= !locks.may_be_no_lock(name);
        let how = match class {
            raw::REDISMODULE_NOTIFY_EXPIRED => Gone::Expired,
            raw::REDISMODULE_NOTIFY_EVICTED => Gone::Evicted,
            _ if MOVES.contains(&event) => Gone::Renamed,
            _ => Gone::Otherwise,
        };
        locks.gone(name.keep(), how, now);
    });
    match changed {
        Ok(()) => module.ask_for_a_turn(at_once),
        // What the change makes of the key is not known yet, so it is looked at anew.
        Err(InAChange) if has_expired => {
            module.note_expired(name);
            hear(Note::Again(db, key.into()));
        }
        Err(InAChange) => hear(Note::touched(db, key)),
    }
}

/// An event that nobody needs. After some of them the server is asked to keep them to itself, where it
/// can be and tells us of its turns: not after each, or locks that come and go would ask all the time.
fn heard_in_vain(module: &Module) {
    let count = module.heard_in_vain.get().saturating_add(1);
    module.heard_in_vain.set(count);
}

/// Gives back what is heard in vain. Only at the beginning of a turn of the loop: in the middle of
/// telling modules, which may run a slow script meanwhile, the server would lose its place.
fn give_back(module: &Module) {
    if module.heard_in_vain.get() < IN_VAIN {
        return;
    }
    module.heard_in_vain.set(0);
    if needs_no_values(module) && hears_no_more(module, NEW_VALUES, Some(value_event)) {
        module.hears_of_values.set(false);
    }
    if module.read(Locks::remember_nothing) == Ok(true)
        && hears_no_more(module, COMING_AND_GOING, Some(key_event))
    {
        module.hears_of_keys.set(false);
    }
}

fn needs_no_values(module: &Module) -> bool {
    module.waiting.is_empty() && module.read(Locks::leased_places) == Ok(0)
}

fn hears_no_more(module: &Module, classes: c_int, function: NotificationFn) -> bool {
    // SAFETY: the context lives; without such a subscription nothing happens.
    api::unsubscribe_from_keyspace_events()
        .is_some_and(|give_back| unsafe { give_back(module.own().raw(), classes, function) == OK })
}

/// The same, where another module's thread has done it.
///
/// # Safety
/// Called with what the server hands to us, for the length of that call.
unsafe fn heard_elsewhere(ctx: *mut RawCtx, key: *mut RawString) {
    // SAFETY: promised by our caller.
    let (db, key) = unsafe { (Ctx::new(ctx).db(), text::bytes(key)) };
    hear(Note::touched(db, key));
}

/// May the server be on a walk through many keys? It would run a job after each of them. While it
/// evicts, it might evict the new hold next. While it looks for what has expired, or drops the keys of
/// a slot that has left, it knows the place of the neighbour already: a job that takes the neighbour
/// away makes it crash.
fn may_be_on_a_walk(module: &Module, class: c_int, event: &CStr) -> bool {
    class & (raw::REDISMODULE_NOTIFY_EVICTED | raw::REDISMODULE_NOTIFY_EXPIRED) != 0
        || (event == c"del" && module.in_cluster)
}

unsafe extern "C" fn flushed(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_FLUSHDB_END {
        return;
    }
    // SAFETY: this is what the event comes with, for the length of this call.
    let info = unsafe { data.cast::<raw::RedisModuleFlushInfoV1>().as_ref() };
    let db = info.and_then(|info| Db::try_from(info.dbnum).ok());
    hear(Note::Flushed(db));
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
    hear(Note::Swapped(one, other));
}

unsafe extern "C" fn loading(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    let through = [
        raw::REDISMODULE_SUBEVENT_LOADING_ENDED,
        raw::REDISMODULE_SUBEVENT_LOADING_FAILED,
    ];
    if through.contains(&sub) {
        hear(Note::Loaded);
    }
}

/// This may come in the middle of anything, and nothing may be written in it.
unsafe extern "C" fn client_changed(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED {
        return;
    }
    // SAFETY: this is what the event comes with, for the length of this call.
    let info = unsafe { data.cast::<raw::RedisModuleClientInfoV1>().as_ref() };
    if let Some(client) = info.map(|info| info.id) {
        hear(Note::ConnectionClosed(client));
    }
}

/// The server has closed what it meant to close in the last turn, and has not read what clients have
/// sent since: a connection that is gone now is one that it closed by itself.
unsafe extern "C" fn turned(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    if sub != raw::REDISMODULE_SUBEVENT_EVENTLOOP_AFTER_SLEEP {
        module::enter("the end of a turn", Module::end_turn);
        return;
    }
    module::enter("a turn of the loop", |module| {
        // In the middle of a change it can wait for the next turn.
        if module.read(Locks::has_unconfirmed) == Ok(true)
            && (module.change(|locks| locks.confirm(context::lives))).is_ok()
        {
            module.set_timer(clock::now());
        }
        module.ring();
        give_back(module);
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
    let ranges = ranges.iter().map(|range| range.start..=range.end);
    hear(Note::SlotsLeft(ranges.collect()));
}

unsafe extern "C" fn modules_changed(_: *mut RawCtx, _: Event, sub: u64, data: *mut c_void) {
    // SAFETY: this is what the event comes with, for the length of this call; a module's name ends
    // where it should.
    let name = unsafe {
        let change = data.cast::<raw::RedisModuleModuleChangeV1>().as_ref();
        change.map(|change| CStr::from_ptr(change.module_name).to_owned())
    };
    let Some(name) = name else { return };
    hear(match sub {
        raw::REDISMODULE_SUBEVENT_MODULE_LOADED => Note::ModuleJoined(name),
        _ => Note::ModuleLeft(name),
    });
}

unsafe extern "C" fn settings_changed(_: *mut RawCtx, _: Event, _: u64, _: *mut c_void) {
    hear(Note::SettingsChanged);
}

unsafe extern "C" fn role_changed(_: *mut RawCtx, _: Event, sub: u64, _: *mut c_void) {
    let master = sub == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER;
    hear(Note::RoleChanged { master });
}
