//! Jobs: the server runs one for us at the very end of what it is doing, where it may be asked to (Redis 7.2 and
//! later, Valkey).

use std::cell::Cell;
use std::ptr::null_mut;

use redis_module::raw;

use super::ffi::api::JobFn;
use super::ffi::{Ctx, OK};

/// The job that the server has accepted, if there is one.
pub struct Jobs {
    function: JobFn,
    /// Do we rely on one that is to come at the end of what the server is doing? Not once something of ours runs
    /// before it.
    pub is_ahead: Cell<bool>,
    /// Has the server still to run one?
    pub is_owed: Cell<bool>,
}

impl Jobs {
    /// None as yet. A job is a call of this function.
    pub fn new(function: JobFn) -> Self {
        Self { function, is_ahead: Cell::default(), is_owed: Cell::default() }
    }

    /// Asks for one; false if there is none to be had. One at a time is enough: a script may run commands of ours,
    /// and touch their locks, ten million times before any job runs.
    pub fn ask(&self, ctx: Ctx<'_>) -> bool {
        if self.is_owed.get() {
            return false;
        }
        // SAFETY: the context lives, there is no data, and the server wrote the address once.
        let is_accepted = unsafe {
            raw::RedisModule_AddPostNotificationJob
                .is_some_and(|add| add(ctx.raw(), self.function, null_mut(), None) == OK)
        };
        self.is_ahead.set(is_accepted);
        self.is_owed.set(is_accepted);
        is_accepted
    }

    pub fn ran(&self) {
        self.is_ahead.set(false);
        self.is_owed.set(false);
    }
}
