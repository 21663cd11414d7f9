//! The two clocks: the steady one, which the module goes by, and the wall clock, by which keys expire.
//!
//! The steady clock begins as Unix time when the module is loaded, and is never stepped. How far the wall
//! clock is ahead of it is a whole number of milliseconds that changes with a step alone: so the two
//! never disagree about which of two moments comes first, however one reads them.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::lock::{Ahead, Now};
use crate::server::version;

/// Two readings may be this far apart, in microseconds, or a step as small, without counting as a step.
const NO_STEP: i64 = 2000;

/// How many times the clocks are read again until both were read at once.
const TRIES: usize = 5;

/// The longest that reading both at once takes, in microseconds.
const AT_ONCE: i64 = 100;

/// What the steady clock is ahead of the system's monotonic one, in microseconds.
static ORIGIN: AtomicI64 = AtomicI64::new(0);
/// By how many microseconds the wall clock is ahead of the steady one: whole milliseconds.
static AHEAD: AtomicI64 = AtomicI64::new(0);

/// The module is being loaded: the steady clock shows Unix time now.
pub fn start() {
    let (wall, monotonic) = both();
    ORIGIN.store(wall.wrapping_sub(monotonic), Ordering::Relaxed);
    AHEAD.store(0, Ordering::Relaxed);
}

/// The steady clock's time, to the microsecond. Notices as well whether the wall clock has been stepped.
#[inline]
pub fn now() -> Now {
    let steady = steady();
    if is_step(wall(), steady) {
        see_step();
    }
    Now::from_micros(steady.cast_unsigned())
}

/// How far the wall clock was ahead of the steady one when both were last read.
#[inline]
pub fn ahead() -> Ahead {
    AHEAD.load(Ordering::Relaxed) / 1000
}

/// Has the wall clock been stepped, if the two clocks show this?
#[inline]
fn is_step(wall: i64, steady: i64) -> bool {
    let apart = wall.wrapping_sub(steady).wrapping_sub(AHEAD.load(Ordering::Relaxed));
    // From just before to just after, in one comparison.
    apart.wrapping_add(NO_STEP).cast_unsigned() > (2 * NO_STEP).cast_unsigned()
}

#[cold]
fn see_step() {
    let (wall, monotonic) = both();
    let steady = monotonic.wrapping_add(ORIGIN.load(Ordering::Relaxed));
    if is_step(wall, steady) {
        let ahead = whole_ms(wall.wrapping_sub(steady));
        if ahead > AHEAD.load(Ordering::Relaxed) || server_has_seen(ahead) {
            AHEAD.store(ahead, Ordering::Relaxed);
        }
    }
}

/// The wall clock and the monotonic one, read at once: the process may have stood still in between.
fn both() -> (i64, i64) {
    for _ in 0..TRIES {
        let (before, wall, after) = (monotonic(), wall(), monotonic());
        if after.wrapping_sub(before) <= AT_ONCE {
            return (wall, before);
        }
    }
    (wall(), monotonic())
}

/// Keys expire by the time that the server has cached: at the beginning of the command, or on Valkey 9.1 some
/// time before. A deadline that we moved back because of a step that the server has not seen would be over at
/// once. (One that we moved forward lasts.)
fn server_has_seen(ahead: i64) -> bool {
    let seen = version::info(c"server", |field| field(c"server_time_usec")?.parse().ok());
    seen.is_none_or(|seen: i64| {
        let steady = steady();
        let old = steady.wrapping_add(AHEAD.load(Ordering::Relaxed));
        seen.abs_diff(steady.wrapping_add(ahead)) < seen.abs_diff(old)
    })
}

/// To the nearest millisecond, in microseconds.
fn whole_ms(micros: i64) -> i64 {
    (micros.saturating_add(500).div_euclid(1000)).saturating_mul(1000)
}

#[inline]
fn steady() -> i64 {
    monotonic().wrapping_add(ORIGIN.load(Ordering::Relaxed))
}

/// The monotonic clock, in microseconds.
#[inline]
fn monotonic() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // Nothing here can be so large that it would wrap.
    (time.tv_sec.wrapping_mul(1_000_000)).wrapping_add(time.tv_nsec / 1000)
}

/// The wall clock, in microseconds of Unix time, read as the server reads it. The standard library's way costs
/// a command three times as much.
#[inline]
fn wall() -> i64 {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: there is room for the time, and no zone is asked for.
    unsafe { libc::gettimeofday(&raw mut time, null_mut()) };
    time.tv_sec.wrapping_mul(1_000_000).wrapping_add(time.tv_usec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steady_clock_begins_as_unix_time_and_nothing_is_a_step_that_is_none() {
        start();
        let begun = wall().cast_unsigned();
        for _ in 0..1000 {
            // Each clock is cut to the microsecond by itself, so it may seem to have begun a little earlier.
            assert!(now().micros().abs_diff(begun) < 60_000_000);
            assert_eq!(ahead(), 0);
        }
    }

    #[test]
    fn a_step_is_counted_in_whole_milliseconds() {
        let cases =
            [(0, 0), (499, 0), (500, 1000), (-500, 0), (-501, -1000), (60_000_400, 60_000_000)];
        for (micros, ms) in cases {
            assert_eq!(whole_ms(micros), ms, "{micros}");
        }
    }

    #[test]
    fn less_than_two_milliseconds_are_no_step() {
        for (apart, is) in [(0, false), (1999, false), (-1999, false), (2001, true), (-2001, true)]
        {
            assert_eq!(is_step(1_000_000 + apart, 1_000_000), is, "{apart}");
        }
    }
}
