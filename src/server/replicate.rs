//! What replicas, the append-only file, transactions and caches are told of a change: the first two the
//! server's own commands, with nothing in them that depends on when they are run.

use std::ffi::CStr;
use std::io;
use std::ptr::null_mut;

// The server's own way to take a number makes two strings of it.
use itoa::Buffer;

use super::ffi::api;
use super::ffi::context::Ctx;
use super::ffi::text::Text;
use crate::lock::Ms;

/// All commands that are used here, or that we ask the server by whether it would take a write.
const NATIVE: [&CStr; 7] = [
    c"SET",
    c"DEL",
    c"PERSIST",
    c"PEXPIREAT",
    c"ZADD",
    c"ZREM",
    c"ZREMRANGEBYSCORE",
];

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

/// `SET name owner PXAT at`. The word is handed in, because a string that is kept costs less than
/// one that is made each time.
pub fn set(ctx: Ctx<'_>, name: &Text<'_>, owner: &Text<'_>, pxat: &Text<'_>, at: Ms) {
    let mut room = Buffer::new();
    let at = room.format(at);
    if let Some(replicate) = api::replicate() {
        // SAFETY: the context and the strings live, and the format asks for three strings and for
        // bytes with their number.
        unsafe {
            replicate(
                ctx.raw(),
                c"SET".as_ptr(),
                c"sssb".as_ptr(),
                name.raw(),
                owner.raw(),
                pxat.raw(),
                at.as_ptr(),
                at.len(),
            );
        }
    }
}

/// `PEXPIREAT name at`
pub fn pexpireat(ctx: Ctx<'_>, name: &Text<'_>, at: Ms) {
    let mut room = Buffer::new();
    let at = room.format(at);
    if let Some(replicate) = api::replicate() {
        // SAFETY: the context and the string live, and the format asks for a string and for bytes
        // with their number.
        unsafe {
            replicate(
                ctx.raw(),
                c"PEXPIREAT".as_ptr(),
                c"sb".as_ptr(),
                name.raw(),
                at.as_ptr(),
                at.len(),
            );
        }
    }
}

/// `PERSIST name`
pub fn persist(ctx: Ctx<'_>, name: &Text<'_>) {
    alone(ctx, c"PERSIST", name);
}

/// `ZADD name [inf marker] at owner`
pub fn zadd(ctx: Ctx<'_>, name: &Text<'_>, marker: Option<&Text<'_>>, at: Ms, owner: &Text<'_>) {
    let mut room = Buffer::new();
    let at = room.format(at);
    let Some(replicate) = api::replicate() else {
        return;
    };
    // SAFETY: the context and the strings live, and the formats ask for what follows them.
    unsafe {
        let (raw, zadd) = (ctx.raw(), c"ZADD".as_ptr());
        match marker {
            Some(marker) => replicate(
                raw,
                zadd,
                c"scsbs".as_ptr(),
                name.raw(),
                c"inf".as_ptr(),
                marker.raw(),
                at.as_ptr(),
                at.len(),
                owner.raw(),
            ),
            None => replicate(
                raw,
                zadd,
                c"sbs".as_ptr(),
                name.raw(),
                at.as_ptr(),
                at.len(),
                owner.raw(),
            ),
        };
    }
}

/// `ZREM name owner …`
pub fn zrem(ctx: Ctx<'_>, name: &Text<'_>, owners: &[Text<'_>]) {
    let owners: Vec<_> = owners.iter().map(Text::raw).collect();
    if let Some(replicate) = api::replicate() {
        // SAFETY: the context and the strings live, and the format asks for a string, and for a list
        // of strings with their number.
        unsafe {
            replicate(
                ctx.raw(),
                c"ZREM".as_ptr(),
                c"sv".as_ptr(),
                name.raw(),
                owners.as_ptr(),
                owners.len(),
            );
        }
    }
}

/// `ZREMRANGEBYSCORE name -inf (before`
pub fn zremrangebyscore(ctx: Ctx<'_>, name: &Text<'_>, before: Ms) {
    let before = format!("({before}");
    if let Some(replicate) = api::replicate() {
        // SAFETY: the context and the string live, and the format asks for a string, a text, and
        // bytes with their number.
        unsafe {
            replicate(
                ctx.raw(),
                c"ZREMRANGEBYSCORE".as_ptr(),
                c"scb".as_ptr(),
                name.raw(),
                c"-inf".as_ptr(),
                before.as_ptr(),
                before.len(),
            );
        }
    }
}

/// `DEL name`
pub fn del(ctx: Ctx<'_>, name: &Text<'_>) {
    alone(ctx, c"DEL", name);
}

/// `UNLINK name`, where the server has it under this name
pub fn unlink(ctx: Ctx<'_>, name: &Text<'_>) {
    let unlink = c"UNLINK";
    alone(ctx, if exists(ctx, unlink) { unlink } else { c"DEL" }, name);
}

/// A command that names a key and nothing else.
fn alone(ctx: Ctx<'_>, command: &CStr, name: &Text<'_>) {
    if let Some(replicate) = api::replicate() {
        // SAFETY: the context and the string live, and the format asks for a string.
        unsafe {
            replicate(ctx.raw(), command.as_ptr(), c"s".as_ptr(), name.raw());
        }
    }
}

/// Tells those who WATCH the key, and clients that keep copies, that it has changed; in the name of
/// whoever has this context. A client may have asked not to be told of its own changes.
pub fn modified(ctx: Ctx<'_>, name: &Text<'_>) {
    // SAFETY: the context and the string live.
    unsafe { api::signal_modified_key(ctx.raw(), name.raw()) };
}
