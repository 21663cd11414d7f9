//! A wall clock that tests can step, for a server that is started with this library in `LD_PRELOAD`.
//!
//! `LOCK_CLOCK` names a file of eight bytes, the nanoseconds by which the wall clock is ahead of the
//! machine's (a signed number in the machine's byte order). To write another number there steps the
//! clock. The monotonic clocks, timers and sleeps are left alone.
//!
//! The functions below are called on every thread, in forked children and before `main`: they allocate
//! nothing, take no lock, and ask the kernel itself for the time.
#![cfg(target_os = "linux")]
#![allow(
    missing_docs,
    unsafe_code,
    clippy::arithmetic_side_effects,
    clippy::missing_safety_doc,
    clippy::undocumented_unsafe_blocks,
    reason = "a library that only a test loads"
)]

use std::mem;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering::Relaxed};

use libc::{
    CLOCK_REALTIME, CLOCK_REALTIME_COARSE, c_char, c_int, c_void, clockid_t, time_t, timespec,
    timeval,
};

const SECOND: i64 = 1_000_000_000;

/// By how much the clock is ahead; null where it is not stepped.
static AHEAD: AtomicPtr<AtomicI64> = AtomicPtr::new(null_mut());

/// The loader runs it before `main`, while there is one thread.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = map;

extern "C" fn map() {
    let length = mem::size_of::<AtomicI64>();
    unsafe {
        let name = libc::getenv(c"LOCK_CLOCK".as_ptr());
        if name.is_null() {
            return;
        }
        let file = libc::open(name, libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return;
        }
        let mut status: libc::stat = mem::zeroed();
        // To read past the end of a file that is too short would be a SIGBUS.
        if libc::fstat(file, &raw mut status) == 0
            && usize::try_from(status.st_size).is_ok_and(|size| size >= length)
        {
            let start = libc::mmap(null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file, 0);
            if start != libc::MAP_FAILED {
                AHEAD.store(start.cast(), Relaxed);
            }
        }
        libc::close(file);
    }
}

fn is_wall_clock(clock: clockid_t) -> bool {
    clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE
}

/// Not by the C library, whose functions these here stand for.
unsafe fn kernels_time(clock: clockid_t, time: *mut timespec) -> c_int {
    let done = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
    c_int::from(done != 0).wrapping_neg()
}

fn wall_clock() -> timespec {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    unsafe { kernels_time(CLOCK_REALTIME, &raw mut time) };
    step(&mut time);
    time
}

fn step(time: &mut timespec) {
    if let Some(ahead) = unsafe { AHEAD.load(Relaxed).as_ref() } {
        let nanos = time.tv_nsec + ahead.load(Relaxed);
        time.tv_sec += nanos.div_euclid(SECOND);
        time.tv_nsec = nanos.rem_euclid(SECOND);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let done = unsafe { kernels_time(clock, time) };
    if done == 0 && is_wall_clock(clock) {
        step(unsafe { &mut *time });
    }
    done
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(into: *mut timeval, _zone: *mut c_void) -> c_int {
    let time = wall_clock();
    if let Some(into) = unsafe { into.as_mut() } {
        into.tv_sec = time.tv_sec;
        into.tv_usec = time.tv_nsec / 1000;
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(into: *mut time_t) -> time_t {
    let seconds = wall_clock().tv_sec;
    if let Some(into) = unsafe { into.as_mut() } {
        *into = seconds;
    }
    seconds
}

/// Valkey 9 has its modules look for functions in their own libraries first, where they would find the
/// machine's clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void {
    type Dlopen = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    unsafe {
        let real = libc::dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr());
        if real.is_null() {
            return null_mut();
        }
        mem::transmute::<*mut c_void, Dlopen>(real)(file, flags & !libc::RTLD_DEEPBIND)
    }
}
