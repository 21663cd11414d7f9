use crate::Lock;
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

    /// With two thirds of the ttl left; never beyond the cap.
    pub(crate) fn due(&self) -> Instant {
        let third = self.ends.checked_sub(self.ttl.saturating_mul(2) / 3);
        let due = third.unwrap_or(self.not_before).max(self.not_before);
        if due < self.renews_until {
            due
        } else {
            after(self.ends, FAR) // the hold ends first
        }
    }
}

/// Farther than any timer needs to be set.
pub(crate) const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

pub(crate) fn after(from: Instant, duration: Duration) -> Instant {
    from + duration.min(FAR)
}
