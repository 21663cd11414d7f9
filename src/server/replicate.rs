//! What is replicated of a change, and written to the append-only file: the server's own commands, with nothing in
//! them that depends on when they are run. And the notification of transactions and caches.

use std::ffi::CStr;
use std::io;
use std::ptr::null_mut;

use itoa::Buffer;
use redis_module::raw;

use super::ffi::{Ctx, Text, api};
use crate::lock::{Ms, SHARED_MARKER};

// The server's own way to take a number makes two strings of it.

/// All commands that are used here, or by which we ask the server whether it would take a write.
const NATIVE: [&CStr; 6] = [c"SET", c"DEL", c"PERSIST", c"PEXPIREAT", c"ZADD", c"ZREM"];

/// A command that the server does not have, because its configuration file gives it another name or
/// none. What we would replicate by it would be lost without a word, and after a restart or a failover
/// two would hold a lock.
pub fn missing(ctx: Ctx<'_>) -> Option<&'static CStr> {
    NATIVE.into_iter().find(|name| !exists(ctx, name))
}

fn exists(ctx: Ctx<'_>, name: &CStr) -> bool {
    let name = Text::new(name.to_bytes());
    let (mut argv, mut count) = ([name.raw()], 0);
    // None of them is right without arguments, so there is no list: either the number of arguments is
    // wrong, or there is no such command.
    // SAFETY: the context and the name live, and the server reads the name only. No list of flags is
    // asked for, and a list of keys would be ours.
    unsafe {
        let argv = argv.as_mut_ptr();
        let keys = api::get_command_keys_with_flags(ctx.raw(), argv, 1, &raw mut count, null_mut());
        if !keys.is_null() {
            api::free(keys.cast());
            return true;
        }
    }
    io::Error::last_os_error().kind() != io::ErrorKind::NotFound
}

/// Words that are written and replicated time and again. A string that is kept costs less than one that is made
/// each time.
pub struct Words {
    /// Every grant is replicated with this.
    pxat: Text<'static>,
    /// What tells shared locks from other sorted sets.
    pub marker: Text<'static>,
}

impl Words {
    pub fn new() -> Self {
        Self { pxat: Text::new(b"PXAT"), marker: Text::new(SHARED_MARKER) }
    }
}

/// Replicates a command, with what its format asks for. The context and all that follows must live, and be what the
/// format says.
macro_rules! replicate {
    ($ctx:expr, $command:expr, $format:expr $(, $word:expr)+) => {
        if let Some(replicate) = raw::RedisModule_Replicate {
            replicate($ctx.raw(), $command.as_ptr(), $format.as_ptr() $(, $word)+);
        }
    };
}

/// `SET name owner PXAT at`
pub fn set(ctx: Ctx<'_>, name: &Text<'_>, owner: &Text<'_>, words: &Words, at: Ms) {
    let mut room = Buffer::new();
    let at = room.format(at);
    let (at, len) = (at.as_ptr(), at.len());
    let (name, owner, pxat) = (name.raw(), owner.raw(), words.pxat.raw());
    // SAFETY: the context and the strings live, and the format asks for three strings and for
    // bytes with their number.
    unsafe { replicate!(ctx, c"SET", c"sssb", name, owner, pxat, at, len) }
}

/// `PEXPIREAT name at`
pub fn pexpireat(ctx: Ctx<'_>, name: &Text<'_>, at: Ms) {
    let mut room = Buffer::new();
    let at = room.format(at);
    // SAFETY: the context and the string live, and the format asks for a string and for bytes
    // with their number.
    unsafe { replicate!(ctx, c"PEXPIREAT", c"sb", name.raw(), at.as_ptr(), at.len()) }
}

/// `PERSIST name`
pub fn persist(ctx: Ctx<'_>, name: &Text<'_>) {
    alone(ctx, c"PERSIST", name);
}

/// `ZADD name [inf marker] at owner`
pub fn zadd(ctx: Ctx<'_>, name: &Text<'_>, marker: Option<&Text<'_>>, at: Ms, owner: &Text<'_>) {
    let mut room = Buffer::new();
    let at = room.format(at);
    let (name, owner, at, len) = (name.raw(), owner.raw(), at.as_ptr(), at.len());
    match marker {
        Some(marker) => {
            let (inf, marker) = (c"inf".as_ptr(), marker.raw());
            // SAFETY: the context and the strings live, and the format asks for what follows it.
            unsafe { replicate!(ctx, c"ZADD", c"scsbs", name, inf, marker, at, len, owner) }
        }
        // SAFETY: the context and the strings live, and the format asks for what follows it.
        None => unsafe { replicate!(ctx, c"ZADD", c"sbs", name, at, len, owner) },
    }
}

/// `ZREM name owner …`
pub fn zrem(ctx: Ctx<'_>, name: &Text<'_>, owners: &[Text<'_>]) {
    let owners: Vec<_> = owners.iter().map(Text::raw).collect();
    let (owners, count) = (owners.as_ptr(), owners.len());
    // SAFETY: the context and the strings live, and the format asks for a string, and for a list
    // of strings with their number.
    unsafe { replicate!(ctx, c"ZREM", c"sv", name.raw(), owners, count) }
}

/// `DEL name`; or `UNLINK name`, if it is large and the server has that under this name
pub fn delete(ctx: Ctx<'_>, name: &Text<'_>, is_large: bool) {
    let unlink = c"UNLINK";
    alone(ctx, if is_large && exists(ctx, unlink) { unlink } else { c"DEL" }, name);
}

/// `REPLCONF GETACK *`, to replicas alone: each says at once how much it has.
pub fn ask_for_acknowledgements(ctx: Ctx<'_>) {
    let (getack, all) = (c"GETACK".as_ptr(), c"*".as_ptr());
    // SAFETY: the context and the texts live, and the format asks for two texts.
    unsafe { replicate!(ctx, c"REPLCONF", c"Acc", getack, all) }
}

/// A command that names a key and nothing else.
fn alone(ctx: Ctx<'_>, command: &CStr, name: &Text<'_>) {
    // SAFETY: the context and the string live, and the format asks for a string.
    unsafe { replicate!(ctx, command, c"s", name.raw()) }
}

/// Tells clients that WATCH the key, and those that keep copies, that it has changed; in the name of the client
/// of this context, which may have asked not to be told of its own changes.
pub fn modified(ctx: Ctx<'_>, name: &Text<'_>) {
    // SAFETY: the context and the string live.
    unsafe { api::signal_modified_key(ctx.raw(), name.raw()) };
}
