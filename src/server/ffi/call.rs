//! Commands that we run ourselves, and what they reply.

use std::ffi::{CStr, CString};
use std::io;
use std::marker::PhantomData;

use redis_module::raw;

use crate::server::ffi::api::{self, CallReply, RawString};
use crate::server::ffi::constants::REPLY_ERROR;
use crate::server::ffi::context::Ctx;
use crate::server::ffi::text::{Lent, Text};

/// What a command has replied; given back when dropped.
pub struct ServerReply(*mut CallReply);

/// Runs a command, with what its format asks for. The context and all that follows must live, and be what the
/// format says.
macro_rules! run {
    ($ctx:expr, $command:expr, $format:expr $(, $word:expr)*) => {
        raw::RedisModule_Call.and_then(|call| {
            let reply = call($ctx.raw(), $command.as_ptr(), $format.as_ptr() $(, $word)*);
            // Not made before it is known that there is one, because it is given back when it is dropped.
            (!reply.is_null()).then(|| ServerReply(reply))
        })
    };
}

/// `COMMAND INFO name`
pub fn command_info(ctx: Ctx<'_>, name: Lent<'_>) -> Option<ServerReply> {
    // SAFETY: the context and the name live, and the format asks for a text and a string.
    unsafe { run!(ctx, c"COMMAND", c"cs", c"INFO".as_ptr(), name.raw()) }
}

/// Runs a command of two words that changes nothing.
pub fn ask(ctx: Ctx<'_>, command: &CStr, word: &CStr) -> Option<ServerReply> {
    // SAFETY: the context lives, and the format asks for one text, which is there.
    unsafe { run!(ctx, command, c"c", word.as_ptr()) }
}

/// `SCAN`, with these words.
pub fn scan(ctx: Ctx<'_>, words: &[&[u8]]) -> Option<ServerReply> {
    let texts: Vec<Text<'_>> = words.iter().map(|word| Text::new(word)).collect();
    let words: Vec<*mut RawString> = texts.iter().map(Text::raw).collect();
    // SAFETY: the context lives, and the format asks for a list of words and their number. The words
    // live until the end.
    unsafe { run!(ctx, c"SCAN", c"Ev", words.as_ptr(), words.len()) }
}

/// The value of a setting of the server's, if it has it.
pub fn setting(ctx: Ctx<'_>, name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: the context lives, and the format asks for two texts.
    let reply = unsafe { run!(ctx, c"CONFIG", c"cc", c"GET".as_ptr(), name.as_ptr()) };
    Some(reply?.whole().items().nth(1)?.text().to_vec())
}

/// The server would not accept a client's write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Of this key.
    This,
    /// Of any: it lacks replicas, or a disk, or memory.
    All,
}

/// What the errors begin with by which it refuses all.
const OF_ALL: [&[u8]; 4] = [b"NOREPLICAS", b"MISCONF", b"OOM", b"READONLY"];

/// Would the server refuse a client's write of this key? Asked by a write that changes nothing, whatever
/// stands there.
pub fn refusal_of_a_write(ctx: Ctx<'_>, name: &Text<'_>) -> Option<Refused> {
    let (at, later) = (c"1".as_ptr(), c"GT".as_ptr());
    // SAFETY: the context and the name live, and the format asks for one string and two texts,
    // which are there.
    let reply = unsafe { run!(ctx, c"PEXPIREAT", c"SEscc", name.raw(), at, later) };
    match reply {
        Some(reply) if !reply.is_error() => None,
        Some(reply) => {
            let text = reply.text();
            let is_of_all = OF_ALL.iter().any(|word| text.starts_with(word));
            Some(if is_of_all { Refused::All } else { Refused::This })
        }
        None => Some(Refused::This),
    }
}

/// Is the slot of this name ours, wherever its keys are while it moves? Asked by a command that a
/// cluster routes by the slot of its channel, and that changes nothing for a client without a subscription.
pub fn has_slot_of(ctx: Ctx<'_>, name: &Text<'_>) -> bool {
    // SAFETY: the context and the name live, and the format asks for one string, which is there.
    let reply = unsafe { run!(ctx, c"SUNSUBSCRIBE", c"Es", name.raw()) };
    reply.is_none_or(|reply| !reply.is_error())
}

/// The name of the caller's user. A call of a module's may have none, and servers don't expect to be
/// asked for its name.
pub fn user_name(ctx: Ctx<'_>) -> Option<Text<'static>> {
    // SAFETY: the context lives. The server gives us a string to free, or null, if it knows no such
    // connection.
    let mut name = unsafe { api::get_client_user_name_by_id(ctx.raw(), ctx.client()) };
    // A script has no connection of its own.
    if name.is_null() && ctx.flags().in_script() && has_user(ctx) {
        // SAFETY: the context lives, and its caller has a user.
        name = unsafe { api::get_current_user_name(ctx.raw()) };
    }
    // SAFETY: it is ours to free.
    (!name.is_null()).then(|| unsafe { Text::given(name) })
}

/// Does the caller have a user? A call of a module's may have none. Asked by calling, as the caller's
/// user, a command that there is not: the server looks for the user first.
fn has_user(ctx: Ctx<'_>) -> bool {
    // SAFETY: the context lives, and the format asks for nothing.
    let reply = unsafe { run!(ctx, c"lock.no-such-command", c"C") };
    let why = io::Error::last_os_error().raw_os_error();
    reply.is_none() && why == Some(libc::ENOENT)
}

/// Runs a command for a client: with its rights, in its database and its protocol, as one that a
/// script would run, and replicated as itself. What the server has against it is the reply.
pub fn for_client(ctx: Ctx<'_>, name: Lent<'_>, arguments: &[Lent<'_>]) -> Option<ServerReply> {
    let name = CString::new(name.bytes()).unwrap_or_default();
    // SAFETY: the context and the words live, and the format asks for a list of words and their
    // number.
    let reply = unsafe {
        let words = arguments.as_ptr().cast::<*mut RawString>();
        run!(ctx, name, c"!CES0Mv", words, arguments.len())?
    };
    if !reply.is_nothing() {
        return Some(reply);
    }
    // Valkey 8.1 and 9 leave some replies (WRONGTYPE to GETDEL and GETSET) with the client that they
    // keep for such calls, and give them to the next call: that is this one, of a harmless command.
    drop(reply);
    // SAFETY: the context lives, and the format asks for nothing.
    let reply = unsafe { run!(ctx, c"PING", c"0") };
    reply.filter(|reply| !reply.is_nothing() && reply.text() != b"PONG")
}

impl ServerReply {
    /// Has nothing been said at all, not even that there is nothing?
    fn is_nothing(&self) -> bool {
        let mut len = 0;
        // SAFETY: the reply is ours until it is dropped.
        unsafe { api::call_reply_proto(self.0, &raw mut len) };
        len == 0
    }

    pub fn is_error(&self) -> bool {
        // SAFETY: the reply is ours until it is dropped.
        unsafe { api::call_reply_type(self.0) == REPLY_ERROR }
    }

    /// Sends it on to a client.
    pub fn pass_on(&self, ctx: Ctx<'_>) {
        // SAFETY: the context lives, and so does the reply.
        unsafe { api::reply_with_call_reply(ctx.raw(), self.0) };
    }

    pub fn whole(&self) -> Part<'_> {
        Part { raw: self.0, life: PhantomData }
    }

    /// The bytes of a text.
    pub fn text(&self) -> &[u8] {
        self.whole().text()
    }
}

impl Drop for ServerReply {
    fn drop(&mut self) {
        // SAFETY: it is ours alone.
        unsafe { api::free_call_reply(self.0) }
    }
}

/// A reply, or what stands at some place in it; gone when the reply is.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    raw: *mut CallReply,
    life: PhantomData<&'a ServerReply>,
}

impl<'a> Part<'a> {
    /// The bytes of a text.
    pub fn text(self) -> &'a [u8] {
        let mut len = 0;
        // SAFETY: the reply lives; the server says null for anything but a text, and else how long
        // it is.
        unsafe {
            let start = api::call_reply_string_ptr(self.raw, &raw mut len);
            if start.is_null() { &[] } else { std::slice::from_raw_parts(start.cast(), len) }
        }
    }

    /// What stands in a list.
    pub fn items(self) -> impl Iterator<Item = Part<'a>> {
        (0_usize..)
            // SAFETY: the reply lives; the server says null past the end of a list, and for anything
            // but a list.
            .map(move |index| unsafe { api::call_reply_array_element(self.raw, index) })
            .take_while(|item| !item.is_null())
            .map(|raw| Part { raw, life: PhantomData })
    }
}
