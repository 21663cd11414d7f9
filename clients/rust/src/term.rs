use crate::{Cause, Lock};
use std::time::Duration;
use tokio::time::Instant;

/// Until when a hold lasts, as far as this process knows, and when it has to be renewed.
pub(crate) struct Term {
    ttl: Duration,
    pub(crate) ends: Instant,
    renews_until: Instant,
    pub(crate) not_before: Instant,
}

impl Term {
    pub(crate) fn new<C>(lock: &Lock<C>, asked: Instant) -> Term {
        Term {
            ttl: lock.ttl,
            ends: after(asked, lock.ttl),
            renews_until: after(asked, lock.renew_for),
            not_before: asked,
        }
    }

    /// With two thirds of the ttl left; never beyond the cap: then the hold ends first.
    pub(crate) fn due(&self) -> Option<Instant> {
        let third = self.ends.checked_sub(self.ttl.saturating_mul(2) / 3);
        let due = third.unwrap_or(self.not_before).max(self.not_before);
        (due < self.renews_until).then_some(due)
    }

    /// Why it will have been lost if it ends.
    pub(crate) fn cause(&self) -> Cause {
        match self.due() {
            Some(_) => Cause::Unanswered,
            None => Cause::Capped,
        }
    }
}

/// Farther than any timer needs to be set.
pub(crate) const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

pub(crate) fn after(from: Instant, duration: Duration) -> Instant {
    from + duration.min(FAR)
}
