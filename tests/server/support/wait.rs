//! Waiting for something to become true, with a deadline. Nothing else in the tests sleeps, but for
//! those of histories/ and lost_updates/, where clients think, or sleep for too long, and servers have
//! bad days, for two in cluster.rs, where a server is stopped until some time is up, for one in
//! places/, where nothing may happen while no client can ask, and for two in clocks/, where the clock is
//! stepped while the server runs a transaction, and again and again.

use std::thread;
use std::time::{Duration, Instant};

/// Generous: it is only ever used up by a test that fails.
const DEADLINE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(2);

/// Returns once `holds` is true; panics with `what` when it is not so in time.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    eventually_some(what, || holds().then_some(()));
}

/// As [`eventually`], and hands back what it waited for.
#[track_caller]
pub fn eventually_some<T>(what: &str, find: impl FnMut() -> Option<T>) -> T {
    in_time(find).unwrap_or_else(|| panic!("not within {DEADLINE:?}: {what}"))
}

/// As [`eventually_some`], for a caller that has more to say when the time is up.
pub fn in_time<T>(mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let found = find();
        if found.is_some() || Instant::now() > deadline {
            return found;
        }
        thread::sleep(PAUSE);
    }
}
