//! Trouble on request, for the tests that see that none of it does harm: panics, and what a server does
//! too seldom to be waited for. Not in the module that people load: only with the feature `provoke`.
#![allow(clippy::panic, reason = "that is what it is for")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A place, and how often it may be come by before that.
static WANTED: Mutex<Option<(Vec<u8>, i64)>> = Mutex::new(None);

/// After so many times, the next time that this place is come by there is a panic, once. Two names
/// ask for something else: `sleep` for a pause of so many milliseconds before the server is asked
/// whether it would take a write, once; and `refuse key` for the key's being refused so many times when
/// it is opened for writing.
pub fn ask_for(place: &[u8], passes: i64) {
    *wanted() = Some((place.to_vec(), passes));
}

/// Panics, if that has been asked for.
pub fn at(place: &str) {
    let is_due = wanted().take_if(|(name, passes)| {
        let is_here = *name == place.as_bytes();
        *passes = passes.saturating_sub(i64::from(is_here));
        is_here && *passes < 0
    });
    if is_due.is_some() {
        panic!("provoked in {place}");
    }
}

/// Is this key to be refused?
pub fn refuses(key: &[u8]) -> bool {
    match &mut *wanted() {
        Some((name, left)) if name.strip_prefix(b"refuse ") == Some(key) => {
            *left = left.saturating_sub(1);
            *left >= 0
        }
        _ => false,
    }
}

/// Sleeps, if that has been asked for.
pub fn sleep() {
    let pause = wanted().take_if(|(name, _)| name == b"sleep");
    if let Some((_, pause)) = pause {
        thread::sleep(Duration::from_millis(pause.try_into().unwrap_or_default()));
    }
}

fn wanted() -> MutexGuard<'static, Option<(Vec<u8>, i64)>> {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner)
}
