//! Another module in the same server, for tests: it runs commands where modules may run them. Each
//! command runs as a client's would, and its reply is the reply.
//!
//! - `NEIGHBOUR.CALL command [arg ...]` runs it in a command.
//! - `NEIGHBOUR.THREAD command [arg ...]` runs it on a thread of this module's, which holds the
//!   server's lock meanwhile.
//! - `NEIGHBOUR.WHEN event key command [arg ...]` runs it whenever this event comes about this key,
//!   from within the notification; one of them at a time, and none without a command.
//! - `NEIGHBOUR.TIMER ms` makes a timer that does nothing when its time has come.
//! - `NEIGHBOUR.HEARD` says what the last such command was replied, as it would be sent to a client.
#![allow(
    missing_docs,
    unsafe_code,
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used,
    reason = "a module that only a test loads"
)]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::thread;

use redis_module::raw::*;

#[global_allocator]
static MEMORY: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;

type Words = Vec<Vec<u8>>;

/// What to run, and upon which event about which key.
struct Wanted {
    event: Vec<u8>,
    key: Vec<u8>,
    command: Words,
}

thread_local! {
    static WANTED: RefCell<Option<Wanted>> = const { RefCell::new(None) };
    static HEARD: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

unsafe fn words(argv: *mut *mut RedisModuleString, argc: c_int) -> Words {
    let strings = unsafe { std::slice::from_raw_parts(argv, argc as usize) };
    strings.iter().map(|&string| unsafe { bytes(string) }).collect()
}

unsafe fn bytes(string: *const RedisModuleString) -> Vec<u8> {
    let mut len = 0;
    unsafe {
        let start = RedisModule_StringPtrLen.unwrap()(string, &raw mut len);
        std::slice::from_raw_parts(start.cast(), len).to_vec()
    }
}

/// Runs a command, and replicates what it does.
unsafe fn run(ctx: *mut RedisModuleCtx, words: &[Vec<u8>]) -> *mut RedisModuleCallReply {
    let name = CString::new(words[0].clone()).unwrap();
    unsafe {
        let strings: Vec<*mut RedisModuleString> = words[1..]
            .iter()
            .map(|word| {
                RedisModule_CreateString.unwrap()(null_mut(), word.as_ptr().cast(), word.len())
            })
            .collect();
        let call = RedisModule_Call.unwrap();
        let reply = call(ctx, name.as_ptr(), c"!Ev".as_ptr(), strings.as_ptr(), strings.len());
        for string in strings {
            RedisModule_FreeString.unwrap()(null_mut(), string);
        }
        reply
    }
}

unsafe fn pass_on(ctx: *mut RedisModuleCtx, reply: *mut RedisModuleCallReply) {
    unsafe {
        if reply.is_null() {
            RedisModule_ReplyWithNull.unwrap()(ctx);
        } else {
            RedisModule_ReplyWithCallReply.unwrap()(ctx, reply);
            RedisModule_FreeCallReply.unwrap()(reply);
        }
    }
}

unsafe extern "C" fn call(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    unsafe {
        let words = words(argv, argc);
        let reply = run(ctx, &words[1..]);
        pass_on(ctx, reply);
    }
    0
}

unsafe extern "C" fn on_a_thread(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    let words = unsafe { words(argv, argc) };
    let blocked = unsafe { RedisModule_BlockClient.unwrap()(ctx, None, None, None, 0) }.addr();
    thread::spawn(move || unsafe {
        let blocked: *mut RedisModuleBlockedClient = std::ptr::with_exposed_provenance_mut(blocked);
        let ctx = RedisModule_GetThreadSafeContext.unwrap()(blocked);
        RedisModule_ThreadSafeContextLock.unwrap()(ctx);
        let reply = run(ctx, &words[1..]);
        pass_on(ctx, reply);
        RedisModule_ThreadSafeContextUnlock.unwrap()(ctx);
        RedisModule_FreeThreadSafeContext.unwrap()(ctx);
        RedisModule_UnblockClient.unwrap()(blocked, null_mut());
    });
    0
}

unsafe extern "C" fn when(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    let words = unsafe { words(argv, argc) };
    let wanted = match &words[1..] {
        [event, key, command @ ..] if !command.is_empty() => {
            Some(Wanted { event: event.clone(), key: key.clone(), command: command.to_vec() })
        }
        _ => None,
    };
    WANTED.set(wanted);
    unsafe { RedisModule_ReplyWithSimpleString.unwrap()(ctx, c"OK".as_ptr()) };
    0
}

unsafe extern "C" fn rings(_: *mut RedisModuleCtx, _: *mut c_void) {}

unsafe extern "C" fn timer(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    let words = unsafe { words(argv, argc) };
    let ms = String::from_utf8_lossy(&words[1]).parse().unwrap();
    unsafe {
        RedisModule_CreateTimer.unwrap()(ctx, ms, Some(rings), null_mut());
        RedisModule_ReplyWithSimpleString.unwrap()(ctx, c"OK".as_ptr());
    }
    0
}

unsafe extern "C" fn tell_heard(
    ctx: *mut RedisModuleCtx,
    _: *mut *mut RedisModuleString,
    _: c_int,
) -> c_int {
    let heard = HEARD.take();
    unsafe {
        RedisModule_ReplyWithStringBuffer.unwrap()(ctx, heard.as_ptr().cast(), heard.len());
    }
    0
}

unsafe extern "C" fn heard(
    ctx: *mut RedisModuleCtx,
    _: c_int,
    event: *const c_char,
    key: *mut RedisModuleString,
) -> c_int {
    let (event, key) = unsafe { (CStr::from_ptr(event).to_bytes(), bytes(key)) };
    let wanted = WANTED.with_borrow(|wanted| {
        let wanted = wanted.as_ref()?;
        (wanted.event == event && wanted.key == key).then(|| wanted.command.clone())
    });
    if let Some(command) = wanted {
        unsafe {
            let reply = run(ctx, &command);
            if !reply.is_null() {
                let mut len = 0;
                let start = RedisModule_CallReplyProto.unwrap()(reply, &raw mut len);
                HEARD.set(std::slice::from_raw_parts(start.cast(), len).to_vec());
                RedisModule_FreeCallReply.unwrap()(reply);
            }
        }
    }
    0
}

/// # Safety
/// Called by the server's loader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut RedisModuleCtx,
    _: *mut *mut RedisModuleString,
    _: c_int,
) -> c_int {
    type Entry =
        unsafe extern "C" fn(*mut RedisModuleCtx, *mut *mut RedisModuleString, c_int) -> c_int;
    let commands: [(&CStr, Entry); 5] = [
        (c"neighbour.call", call),
        (c"neighbour.thread", on_a_thread),
        (c"neighbour.when", when),
        (c"neighbour.timer", timer),
        (c"neighbour.heard", tell_heard),
    ];
    unsafe {
        if Export_RedisModule_Init(ctx, c"neighbour".as_ptr(), 1, 1) != 0 {
            return 1;
        }
        for (name, entry) in commands {
            let create = RedisModule_CreateCommand.unwrap();
            if create(ctx, name.as_ptr(), Some(entry), c"write".as_ptr(), 0, 0, 0) != 0 {
                return 1;
            }
        }
        let classes = (REDISMODULE_NOTIFY_GENERIC
            | REDISMODULE_NOTIFY_STRING
            | REDISMODULE_NOTIFY_ZSET
            | REDISMODULE_NOTIFY_EXPIRED
            | REDISMODULE_NOTIFY_MODULE) as c_int;
        RedisModule_SubscribeToKeyspaceEvents.unwrap()(ctx, classes, Some(heard))
    }
}
