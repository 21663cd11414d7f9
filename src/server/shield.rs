//! No panic may cross into the server: it would stop everybody's database.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::context;

/// Runs what the server has called us for. A panic ends here: it is logged, and answered by
/// `fallback`.
pub fn shield<T>(place: &str, fallback: impl FnOnce() -> T, work: impl FnOnce() -> T) -> T {
    // Our state may be halfway through a change, but each part of it is whole, and who holds a lock
    // stands in the key: going on is better than taking everybody down.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        context::log_warning(&format!(
            "a defect of this module was met in {place}; please report it"
        ));
        fallback()
    })
}
