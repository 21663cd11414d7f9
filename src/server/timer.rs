//! One timer for everything that is due, and none while nothing is: the server would not unload a
//! module that has one.

use std::cell::Cell;
use std::ptr::null_mut;

use crate::lock::{Ms, Now};

use super::ffi::api::{self, TimerFn, TimerId};
use super::ffi::context::Ctx;

/// The longest that we sleep. The server's timers follow the wall clock, and are late when it is
/// set back; deadlines follow it too, and come early when it is set forward.
const LONGEST_SLEEP: Ms = 1000;

/// The timer, if there is one, and when it rings.
pub struct Timer {
    ring: TimerFn,
    set: Cell<Option<(TimerId, Ms)>>,
}

impl Timer {
    /// One that is not set. When it rings, `ring` is called, and has to say so by [`rung`](Self::rung).
    pub fn new(ring: TimerFn) -> Self {
        Self {
            ring,
            set: Cell::default(),
        }
    }

    /// Has it ring at `due`, or a little earlier, or not at all.
    pub fn set(&self, ctx: Ctx<'_>, due: Option<Ms>, now: Now) {
        let wanted = due.map(|due| due.clamp(now.ms(), now.plus(LONGEST_SLEEP)));
        match (self.set.get(), wanted) {
            (None, None) => {}
            // Early is soon enough: it is then set anew. Too far ahead is a clock that was set back.
            (Some((_, rings)), Some(wanted)) if rings <= wanted => {}
            (before, wanted) => {
                if before.is_some() {
                    self.stop(ctx);
                }
                if let Some(at) = wanted {
                    self.start(ctx, at, now);
                }
            }
        }
    }

    /// Will it ring?
    pub fn is_set(&self) -> bool {
        self.set.get().is_some()
    }

    fn start(&self, ctx: Ctx<'_>, at: Ms, now: Now) {
        // Rounded up: at that time, not within the millisecond before it.
        let micros = at.saturating_mul(1000).saturating_sub(now.micros());
        let period = i64::try_from(micros.div_ceil(1000)).unwrap_or(i64::MAX);
        // SAFETY: the context is our own, and lives as long as the module.
        let id = unsafe { api::create_timer(ctx.raw(), period, self.ring, null_mut()) };
        self.set.set(Some((id, at)));
    }

    fn stop(&self, ctx: Ctx<'_>) {
        if let Some((id, _)) = self.set.take() {
            // SAFETY: the timer has not rung: it is forgotten when it does.
            unsafe { api::stop_timer(ctx.raw(), id, null_mut()) };
        }
    }

    /// It has rung, and is no more. Stopping it now would free it twice.
    pub fn rung(&self) {
        self.set.set(None);
    }
}
