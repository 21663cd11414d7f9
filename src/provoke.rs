//! Panics on request, for the tests that see that none reaches the server. Not in the module that
//! people load: only with the feature `provoke`.
#![allow(clippy::panic, reason = "that is what it is for")]

use std::sync::{Mutex, PoisonError};

/// A place, and how often it may be come by before that.
static WANTED: Mutex<Option<(Vec<u8>, i64)>> = Mutex::new(None);

/// After so many times, the next time that this place is come by there is a panic, once.
pub fn ask_for(place: &[u8], passes: i64) {
    let wanted = Some((place.to_vec(), passes));
    *WANTED.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
}

/// Panics, if that has been asked for.
pub fn at(place: &str) {
    if is_wanted(place) {
        panic!("provoked in {place}");
    }
}

fn is_wanted(place: &str) -> bool {
    let mut wanted = WANTED.lock().unwrap_or_else(PoisonError::into_inner);
    match &mut *wanted {
        Some((name, passes)) if *name == place.as_bytes() => {
            *passes = passes.saturating_sub(1);
            *passes < 0 && wanted.take().is_some()
        }
        _ => false,
    }
}
