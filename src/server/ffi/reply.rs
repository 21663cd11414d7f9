//! Replies, as the server sends them.

use std::ffi::{CString, c_long};

use crate::protocol::Reply;
use crate::server::ffi::api;
use crate::server::ffi::context::Ctx;

/// Sends a reply to the client of this context.
pub fn send(ctx: Ctx<'_>, reply: Reply) {
    let raw = ctx.raw();
    // SAFETY: the context lives, and each length is that of what follows.
    unsafe {
        match reply {
            Reply::Integer(number) => _ = api::reply_with_long_long(raw, number),
            Reply::Null => _ = api::reply_with_null(raw),
            Reply::NullList => _ = api::reply_with_null_array(raw),
            Reply::Bytes(bytes) => send_bytes(ctx, &bytes),
            Reply::List(list) => {
                api::reply_with_array(raw, length(list.len()));
                list.into_iter().for_each(|item| send(ctx, item));
            }
            Reply::Map(map) => {
                api::reply_with_map(raw, length(map.len()));
                map.into_iter().for_each(|(name, value)| {
                    send_bytes(ctx, name.as_bytes());
                    send(ctx, value);
                });
            }
            Reply::Ok => _ = api::reply_with_simple_string(raw, c"OK".as_ptr()),
            Reply::Error(text) => send_error(ctx, &text),
        }
    }
}

pub fn send_error(ctx: Ctx<'_>, text: &str) {
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: the context lives, and the text ends where it should.
    unsafe { api::reply_with_error(ctx.raw(), text.as_ptr()) };
}

/// Tells the client of this context that a defect of ours was met.
pub fn send_defect(ctx: Ctx<'_>) {
    send_error(ctx, "ERR internal error in the lock module; please report it");
}

fn send_bytes(ctx: Ctx<'_>, bytes: &[u8]) {
    // SAFETY: the context lives, and the bytes are there.
    unsafe { api::reply_with_string_buffer(ctx.raw(), bytes.as_ptr().cast(), bytes.len()) };
}

fn length(len: usize) -> c_long {
    c_long::try_from(len).unwrap_or(c_long::MAX)
}
