//! Keyspace events of our own, and who hears of them. Without a listener none is published.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null;

use super::authority::Authority;
use super::ffi::call::{self, Part};
use super::ffi::{Ctx, RawString, Text, api};
use crate::lock::Db;

/// An event that is to be announced when the core is through.
pub struct Announcement<'a> {
    pub db: Db,
    /// The key.
    pub name: Text<'a>,
    pub class: c_int,
    pub event: &'static CStr,
}

/// Modules that come with a server and listen to no key, and this one, which knows what it does.
const NOT_LISTENING: [&[u8]; 3] = [b"lock", b"lua", b"vectorset"];

/// Who may hear of a change.
pub struct Listeners {
    /// How many other modules there are that may be listening.
    modules: Cell<usize>,
    /// The event that we are sending just now, and need not hear of: its key and its name, by their
    /// places in memory. Both, because others may act on the key that they hear of.
    announcing: Cell<(*const RawString, *const c_char)>,
}

impl Listeners {
    /// The modules that are there already.
    pub fn of(ctx: Ctx<'_>) -> Self {
        let modules = call::ask(ctx, c"MODULE", c"LIST").map_or(1, |list| {
            // Each module is a list of names and values, of which the first is its name.
            let texts: Vec<&[u8]> =
                list.whole().items().flat_map(Part::items).map(Part::text).collect();
            texts.windows(2).filter(|pair| matches!(pair, [b"name", name] if listens(name))).count()
        });
        Self { modules: Cell::new(modules), announcing: Cell::new((null(), null())) }
    }

    /// A module has come, or has gone.
    pub fn changed(&self, name: &CStr, loaded: bool) {
        if listens(name.to_bytes()) {
            let count = if loaded { usize::saturating_add } else { usize::saturating_sub };
            self.modules.set(count(self.modules.get(), 1));
        }
    }

    /// The classes of events that may be heard now: by a client, as the server is set, or by a module.
    pub fn classes(&self) -> c_int {
        const ALL: c_int = !0;
        if self.modules.get() > 0 {
            return ALL;
        }
        // SAFETY: asks for nothing.
        unsafe { api::get_notify_keyspace_events() }
    }

    /// Announces an event, as the server's own commands would.
    pub fn tell(&self, announcement: &Announcement<'_>, ctx: Ctx<'_>, authority: Authority) {
        let Announcement { db, name, class, event } = announcement;
        let outer = (self.announcing).replace((name.raw(), event.as_ptr()));
        if authority == Authority::Ourselves {
            ctx.select(*db);
        }
        // SAFETY: context and name live.
        unsafe { api::notify_keyspace_event(ctx.raw(), *class, event.as_ptr(), name.raw()) };
        self.announcing.set(outer);
    }

    pub fn is_announcing(&self, key: *const RawString, event: *const c_char) -> bool {
        self.announcing.get() == (key, event)
    }
}

fn listens(name: &[u8]) -> bool {
    !NOT_LISTENING.contains(&name)
}
