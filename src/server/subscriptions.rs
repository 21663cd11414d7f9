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

/// So many events that are not needed are heard before they are given back.
const IN_VAIN: u32 = 100;

/// What the server tells us of, or can be asked to.
pub struct Subscriptions {
    /// Keys come and go. Asked for when a command first names a lock: every DEL and every expiry costs more when we
    /// hear of it.
    pub keys: Events,
    /// A key comes by another value. Asked for when a client waits, which may come to hold its lock by one: every SET
    /// costs more when we hear of it.
    pub values: Events,
    /// A connection closes. Asked for when a hold is to end with one.
    pub clients: Events,
    /// A turn of the server's loop begins or ends. Asked for when a client waits, or something is due: the timer rings
    /// there, and at the end of a turn the server may close a connection that has been granted its lock in it.
    pub turns: Events,
    /// How many events of keys have been of no use since we last asked for fewer.
    in_vain: Cell<u32>,
}

impl Subscriptions {
    /// Nothing is asked for as yet. These are what the server calls for each.
    pub fn new(
        (keys, values): (NotificationFn, NotificationFn),
        (clients, turns): (EventFn, EventFn),
    ) -> Self {
        Self {
            keys: Events::of(Kind::Keys(COMING_AND_GOING, keys)),
            values: Events::of(Kind::Keys(NEW_VALUES, values)),
            clients: Events::of(Kind::Server(raw::REDISMODULE_EVENT_CLIENT_CHANGE, clients)),
            turns: Events::of(Kind::Server(raw::REDISMODULE_EVENT_EVENTLOOP, turns)),
            in_vain: Cell::default(),
        }
    }

    /// An event of a key was of no use.
    pub fn heard_in_vain(&self) {
        self.in_vain.set(self.in_vain.get().saturating_add(1));
    }

    /// Has so much been heard that was not needed since this was last true that what is not needed should be given back? Not
    /// after each event, or locks that come and go would ask all the time.
    pub fn is_too_much(&self) -> bool {
        let is_too_much = self.in_vain.get() >= IN_VAIN;
        if is_too_much {
            self.in_vain.set(0);
        }
        is_too_much
    }
}

/// Events that the server tells us of once it is asked to.
pub struct Events {
    kind: Kind,
    are_heard: Cell<bool>,
}

/// What they are about, and what the server calls for each.
pub enum Kind {
    Keys(c_int, NotificationFn),
    Server(u64, EventFn),
}

impl Events {
    pub fn of(kind: Kind) -> Self {
        Self { kind, are_heard: Cell::default() }
    }

    /// From now on the server tells us of them; false if it won't.
    #[inline]
    pub fn ask_for(&self, ctx: Ctx<'_>) -> bool {
        if !self.are_heard.get() {
            let ctx = ctx.raw();
            // SAFETY: the context lives, and the functions as long as the module.
            let asked = unsafe {
                match self.kind {
                    Kind::Keys(classes, f) => api::subscribe_to_keyspace_events(ctx, classes, f),
                    Kind::Server(id, f) => {
                        api::subscribe_to_server_event(ctx, Event { id, dataver: 1 }, f)
                    }
                }
            };
            self.are_heard.set(asked == OK);
        }
        self.are_heard.get()
    }

    /// The server keeps them to itself, where it can (Redis 8.2 and later). Only at the beginning of a turn of the
    /// loop: in the middle of telling modules, which may run a slow script meanwhile, it would lose its place.
    pub fn give_back(&self, ctx: Ctx<'_>) {
        let Kind::Keys(classes, function) = self.kind else { return };
        // SAFETY: the context lives; without such a subscription nothing happens. The server wrote the address
        // once.
        let are_given_back = unsafe {
            raw::RedisModule_UnsubscribeFromKeyspaceEvents
                .is_some_and(|give_back| give_back(ctx.raw(), classes, function) == OK)
        };
        if are_given_back {
            self.are_heard.set(false);
        }
    }
}
