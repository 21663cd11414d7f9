//! The context in which the server calls us, and the one that we call it in.

use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::ptr::null_mut;

use redis_module::raw;

use crate::lock::Db;
use crate::server::ffi::api::{self, RawCtx};
use crate::server::ffi::constants::OK;

/// A context that the server has handed to a callback, for as long as that runs; or our own.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    raw: *mut RawCtx,
    life: PhantomData<&'a RawCtx>,
}

/// What the server says of itself and of the caller, all at once.
#[derive(Clone, Copy)]
pub struct Flags(c_int);

impl Flags {
    fn has(self, flag: u32) -> bool {
        c_int::try_from(flag).is_ok_and(|flag| self.0 & flag != 0)
    }

    pub fn master(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_MASTER)
    }

    pub fn cluster(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_CLUSTER)
    }

    /// Is it reading its keys from a file or from a master?
    pub fn loading(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
            || self.has(raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING)
    }

    /// Is it in a transaction or in a script? There the server itself lets no command block.
    pub fn bundled(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_MULTI) || self.has(raw::REDISMODULE_CTX_FLAGS_LUA)
    }

    /// Has the caller a connection that closes at some time? Not in a script, or where a module calls.
    pub fn has_connection(self) -> bool {
        let denied = self.has(raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING);
        let in_multi = self.has(raw::REDISMODULE_CTX_FLAGS_MULTI);
        !self.in_script() && (!denied || in_multi)
    }

    pub fn in_script(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LUA)
    }

    /// Does the server use more memory than it may?
    pub fn is_out_of_memory(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_OOM)
    }

    /// May the caller be blocked? A replica's link to its master must not be, although the server does not say so.
    pub fn may_block(self) -> bool {
        !self.has(raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING)
            && !self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED)
    }
}

impl Ctx<'_> {
    /// # Safety
    /// The context must live as long as the value is used.
    pub unsafe fn new(raw: *mut RawCtx) -> Self {
        Self { raw, life: PhantomData }
    }

    pub fn raw(self) -> *mut RawCtx {
        self.raw
    }

    pub fn flags(self) -> Flags {
        // SAFETY: the context lives.
        Flags(unsafe { api::get_context_flags(self.raw) })
    }

    /// The database that the caller has selected.
    pub fn db(self) -> Db {
        // SAFETY: the context lives.
        usize::try_from(unsafe { api::get_selected_db(self.raw) }).unwrap_or_default()
    }

    pub fn client(self) -> u64 {
        // SAFETY: the context lives.
        unsafe { api::get_client_id(self.raw) }
    }

    /// Selects a database in a context of our own. Never in a caller's: its client would stay there.
    pub fn select(self, db: Db) {
        let Ok(db) = c_int::try_from(db) else { return };
        // SAFETY: the context lives.
        unsafe { api::select_db(self.raw, db) };
    }
}

/// A context of our own, which outlasts the callback that it was made in.
pub struct OwnCtx(*mut RawCtx);

impl OwnCtx {
    /// One that belongs to no client.
    pub fn new(ctx: Ctx<'_>) -> Self {
        // SAFETY: the context lives.
        Self(unsafe { api::get_detached_thread_safe_context(ctx.raw) })
    }

    pub fn get(&self) -> Ctx<'_> {
        // SAFETY: it lives until this is dropped.
        unsafe { Ctx::new(self.0) }
    }
}

impl Drop for OwnCtx {
    fn drop(&mut self) {
        // SAFETY: we got it from the server, and nothing else has it.
        unsafe { api::free_thread_safe_context(self.0) };
    }
}

/// Is there a connection of this number? Those of scripts and modules are none.
pub fn lives(client: u64) -> bool {
    // SAFETY: asks only whether there is such a client.
    unsafe { api::get_client_info_by_id(null_mut(), client) == OK }
}

/// A line in the server's log that an operator should see.
pub fn log_warning(text: &str) {
    log(c"warning", text);
}

/// A line in the server's log, of this level.
pub fn log(level: &CStr, text: &str) {
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: the server wrote the address once; it takes no context too, and the format asks for
    // one text, which is there.
    unsafe {
        if let Some(log) = raw::RedisModule_Log {
            log(null_mut(), level.as_ptr(), c"<lock> %s".as_ptr(), text.as_ptr());
        }
    }
}
