//! One timer for everything that is due. The server's own timers go by the wall clock: they ring late
//! when it is set back, and hold each other up when it is set forward. This one wakes the server's loop by
//! a file descriptor that counts down by the steady clock.
//!
//! What is due is done at the beginning of the loop's turn, where the server takes writes, and not where
//! it reads the descriptor: it does that in the middle of a slow script too.

use std::cell::Cell;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use super::ffi::api::{self, EventLoopFn};
use super::ffi::{OK, READABLE};
use crate::lock::{Ms, Now};

/// How soon it rings again where nothing could be done, in microseconds.
const AGAIN: u64 = 1000;

/// The timer, and when it rings, if it does.
pub struct Timer {
    wakes: OwnedFd,
    rings: Cell<Option<Ms>>,
}

impl Timer {
    /// One that is not set. This is what the server calls when it has been woken.
    pub fn new(woken: EventLoopFn) -> Option<Self> {
        // SAFETY: it takes no pointers. What it gives is ours, if it is none of its errors.
        let wakes = unsafe {
            let fd =
                libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC);
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))?
        };
        // SAFETY: the descriptor is open until it has been taken out of the loop again.
        let added = unsafe { api::event_loop_add(wakes.as_raw_fd(), READABLE, woken, null_mut()) };
        (added == OK).then(|| Self { wakes, rings: Cell::default() })
    }

    /// Has it ring at `due`, or a little earlier, or not at all.
    pub fn set(&self, due: Option<Ms>, now: Now) {
        let wanted = due.map(|due| due.max(now.ms()));
        // It may ring early: it is set anew then.
        let rings_early = self.rings.get().is_some_and(|at| wanted.is_some_and(|late| at <= late));
        if !rings_early && self.rings.replace(wanted) != wanted {
            // 0 would be never.
            self.count_down(wanted.map_or(0, |at| until(at, now).max(1)));
        }
    }

    pub fn is_set(&self) -> bool {
        self.rings.get().is_some()
    }

    /// Is it time? Then it rings no more.
    pub fn rings(&self, now: Now) -> bool {
        let rings = self.rings.get().is_some_and(|at| at <= now.ms());
        if rings {
            self.rings.set(None);
        }
        rings
    }

    /// The loop has been woken, perhaps for what has been done since; or in the middle of a slow script, where
    /// what is due can't be done; or a moment too early.
    pub fn ring_again(&self, now: Now) {
        if let Some(at) = self.rings.get() {
            self.count_down(match until(at, now) {
                0 => AGAIN,
                micros => micros,
            });
        }
    }

    /// Has the descriptor wake the loop after this time; not at all if it is 0.
    fn count_down(&self, micros: u64) {
        let part = |number: u64| number.try_into().unwrap_or_default();
        let nothing = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let time = libc::itimerspec {
            it_interval: nothing,
            it_value: libc::timespec {
                tv_sec: part(micros / 1_000_000),
                tv_nsec: part((micros % 1_000_000).saturating_mul(1000)),
            },
        };
        // SAFETY: the descriptor is a timer's; the time lives.
        unsafe { libc::timerfd_settime(self.wakes.as_raw_fd(), 0, &raw const time, null_mut()) };
    }
}

/// How many microseconds there are until then, counted to the beginning of that millisecond.
fn until(at: Ms, now: Now) -> u64 {
    at.saturating_mul(1000).saturating_sub(now.micros())
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: it was added, and is still open.
        unsafe { api::event_loop_del(self.wakes.as_raw_fd(), READABLE) };
    }
}

/// Reads how often a timer's descriptor has rung. The number does not matter, but unread it would wake the loop for
/// ever.
pub fn read(fd: c_int) {
    let mut count = 0_u64;
    // SAFETY: there is room for the count.
    unsafe { libc::read(fd, (&raw mut count).cast(), size_of::<u64>()) };
}
