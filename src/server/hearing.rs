//! What the server has been asked to tell us of. Each kind of event costs other clients something, so it is asked
//! for when it first matters, and given back where the server takes it back.

use std::cell::Cell;
use std::ffi::c_int;

use redis_module::raw;

use super::ffi::api::{self, Event, EventFn, NotificationFn};
use super::ffi::{Ctx, OK};

/// How a key goes, comes, or comes by another expiry.
const COMING_AND_GOING: c_int = raw::REDISMODULE_NOTIFY_GENERIC
    | raw::REDISMODULE_NOTIFY_EXPIRED
    | raw::REDISMODULE_NOTIFY_EVICTED;

/// How a key comes by another value and stays a lock. (Whatever turns it into a list, a set, a hash
/// or a stream frees no lock, and ends with an event of the other kind.)
const NEW_VALUES: c_int =
    raw::REDISMODULE_NOTIFY_STRING | raw::REDISMODULE_NOTIFY_ZSET | raw::REDISMODULE_NOTIFY_MODULE;

/// So many events are heard in vain before they are given back.
const IN_VAIN: u32 = 100;

/// What the server calls for each kind of event.
pub struct Callbacks {
    /// A key has gone, come, or come by another expiry.
    pub keys: NotificationFn,
    /// A key has come by another value.
    pub values: NotificationFn,
    /// A client has come or gone.
    pub clients: EventFn,
    pub turns: EventFn,
}

/// What we hear of at the moment.
pub struct Hearing {
    callbacks: Callbacks,
    keys: Cell<bool>,
    values: Cell<bool>,
    clients: Cell<bool>,
    turns: Cell<bool>,
    /// How many events of keys have been of no use since we last asked for fewer.
    in_vain: Cell<u32>,
}

impl Hearing {
    pub fn new(callbacks: Callbacks) -> Self {
        Self {
            callbacks,
            keys: Cell::default(),
            values: Cell::default(),
            clients: Cell::default(),
            turns: Cell::default(),
            in_vain: Cell::default(),
        }
    }

    /// A command names a lock. From now on the server tells us of keys that come and go; false if it won't.
    /// Not before, because every DEL and every expiry costs more when we hear of it.
    #[inline]
    pub fn ask_for_keys(&self, ctx: Ctx<'_>) -> bool {
        if !self.keys.get() {
            let heard = hear_of_keys(ctx, COMING_AND_GOING, self.callbacks.keys);
            self.keys.set(heard);
        }
        self.keys.get()
    }

    /// A client waits. From now on new values matter too: a waiter may come to hold its lock by one.
    /// Not before, because every SET costs more when we hear of it.
    pub fn ask_for_values(&self, ctx: Ctx<'_>) {
        if !self.values.get() {
            let heard = hear_of_keys(ctx, NEW_VALUES, self.callbacks.values);
            self.values.set(heard);
        }
    }

    /// A hold is to end with its connection. From now on the server tells us of every connection that closes;
    /// false if it won't.
    pub fn ask_for_clients(&self, ctx: Ctx<'_>) -> bool {
        if !self.clients.get() {
            let id = raw::REDISMODULE_EVENT_CLIENT_CHANGE;
            self.clients.set(hear_of(ctx, id, self.callbacks.clients));
        }
        self.clients.get()
    }

    /// A client waits, or something is due. From now on the server tells us of each turn of its loop: the timer
    /// rings there, and at the end of a turn it may close a connection that has been granted its lock in it.
    #[inline]
    pub fn ask_for_turns(&self, ctx: Ctx<'_>) {
        if !self.turns.get() {
            let id = raw::REDISMODULE_EVENT_EVENTLOOP;
            self.turns.set(hear_of(ctx, id, self.callbacks.turns));
        }
    }

    /// An event of a key was of no use. After some of them the server is asked to keep them to itself, where it
    /// can be and tells us of its turns: not after each, or locks that come and go would ask all the time.
    pub fn heard_in_vain(&self) {
        self.in_vain.set(self.in_vain.get().saturating_add(1));
    }

    /// Gives back what is heard in vain, unless it is needed. Only at the beginning of a turn of the loop: in the
    /// middle of telling modules, which may run a slow script meanwhile, the server would lose its place.
    pub fn give_back(
        &self,
        ctx: Ctx<'_>,
        needs_values: impl FnOnce() -> bool,
        needs_keys: impl FnOnce() -> bool,
    ) {
        if self.in_vain.get() < IN_VAIN {
            return;
        }
        self.in_vain.set(0);
        if !needs_values() && hear_no_more(ctx, NEW_VALUES, self.callbacks.values) {
            self.values.set(false);
        }
        if !needs_keys() && hear_no_more(ctx, COMING_AND_GOING, self.callbacks.keys) {
            self.keys.set(false);
        }
    }
}

/// Asks for a server event; false if the server won't tell us of it.
pub fn hear_of(ctx: Ctx<'_>, id: u64, function: EventFn) -> bool {
    let event = Event { id, dataver: 1 };
    // SAFETY: the context lives, and the function is for ever.
    unsafe { api::subscribe_to_server_event(ctx.raw(), event, function) == OK }
}

fn hear_of_keys(ctx: Ctx<'_>, classes: c_int, function: NotificationFn) -> bool {
    // SAFETY: the context lives, and the function is for ever.
    unsafe { api::subscribe_to_keyspace_events(ctx.raw(), classes, function) == OK }
}

fn hear_no_more(ctx: Ctx<'_>, classes: c_int, function: NotificationFn) -> bool {
    // SAFETY: the context lives; without such a subscription nothing happens. The server (Redis 8.2 and later)
    // wrote the address once.
    unsafe {
        raw::RedisModule_UnsubscribeFromKeyspaceEvents
            .is_some_and(|give_back| give_back(ctx.raw(), classes, function) == OK)
    }
}
