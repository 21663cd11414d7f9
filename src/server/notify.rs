//! Keyspace events of our own, and who hears of them. Where nobody does, we spare ourselves the telling.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};

use crate::lock::Db;

use super::authority::Authority;
use super::ffi::api::{self, RawString};
use super::ffi::call;
use super::ffi::context::Ctx;
use super::ffi::text::Text;

/// What others are to be told of a change, when the core is through.
pub struct Announcement<'a> {
    db: Db,
    name: Text<'a>,
    class: c_int,
    event: &'static CStr,
}

impl<'a> Announcement<'a> {
    /// An event of this class, about this key.
    pub fn new(db: Db, name: Text<'a>, class: c_int, event: &'static CStr) -> Self {
        Self {
            db,
            name,
            class,
            event,
        }
    }

    /// Sends it, as the server's own commands would.
    pub fn send(&self, ctx: Ctx<'_>, authority: Authority) {
        if authority == Authority::Ourselves {
            ctx.select(self.db);
        }
        // SAFETY: context and name live.
        unsafe {
            api::notify_keyspace_event(ctx.raw(), self.class, self.event.as_ptr(), self.name.raw());
        }
    }

    /// What tells it from every other event: the places of its key and its name in memory.
    pub fn identity(&self) -> (*const RawString, *const c_char) {
        (self.name.raw(), self.event.as_ptr())
    }
}

/// Modules that come with a server and listen to no key, and this one, which knows what it does.
const DEAF: [&[u8]; 3] = [b"lock", b"lua", b"vectorset"];

/// How many other modules there are that may be listening.
pub struct Audience {
    modules: Cell<usize>,
}

impl Audience {
    /// The modules that are there already.
    pub fn of(ctx: Ctx<'_>) -> Self {
        let modules = call::ask(ctx, c"MODULE", c"LIST").map_or(1, |list| {
            // Each module is a list of names and values, of which the first is its name.
            let texts: Vec<&[u8]> = list.texts_of_lists().collect();
            texts
                .windows(2)
                .filter(|pair| matches!(pair, [b"name", name] if listens(name)))
                .count()
        });
        Self {
            modules: Cell::new(modules),
        }
    }

    /// A module has come.
    pub fn joined(&self, name: &CStr) {
        if listens(name.to_bytes()) {
            self.modules.set(self.modules.get().saturating_add(1));
        }
    }

    /// A module has gone.
    pub fn left(&self, name: &CStr) {
        if listens(name.to_bytes()) {
            self.modules.set(self.modules.get().saturating_sub(1));
        }
    }

    /// The classes of events that anybody may hear of now: a client, by the server's setting, or a
    /// module.
    pub fn classes(&self) -> c_int {
        const ALL: c_int = !0;
        if self.modules.get() > 0 {
            return ALL;
        }
        // SAFETY: asks for nothing.
        unsafe { api::get_notify_keyspace_events() }
    }
}

fn listens(name: &[u8]) -> bool {
    !DEAF.contains(&name)
}
