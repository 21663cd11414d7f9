//! The settings of an operator (`CONFIG SET lock.…`).

use crate::lock::words::Ms;

/// The largest `max_sharers`: what is done to each holder of a shared lock takes time.
pub const MOST_SHARERS: u64 = 1_000;

/// The largest number of replicas that a request can wait for.
pub const MOST_REPLICAS: u64 = 64;

/// Settings. They are read when a request arrives or its turn comes: changing them changes no hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest ttl that is accepted; 0 for any.
    pub max_ttl: Ms,
    /// How many requests may wait for one lock; 0 for any number.
    pub max_waiters: u64,
    /// How many entries all queues together may have; 0 for any number. A request for several locks has
    /// one in each of their queues.
    pub max_waiters_total: u64,
    /// How many owners may share one lock; at most [`MOST_SHARERS`]. A larger LIMIT is refused where the request is read,
    /// as a ttl above [`Self::max_ttl`] is.
    pub max_sharers: u64,
    /// How far ahead of the wall clock fencing tokens begin after a start or a takeover.
    pub fence_lead: Ms,
    /// The ttl that a string without an expiry gets when a client asks for it as a lock; 0 for none.
    pub orphan_ttl: Ms,
    /// How long the server grants nothing after it has taken over; 0 for not at all.
    pub quarantine: Ms,
    /// The longest lease of a place that is accepted; 0 for any.
    pub max_place_ttl: Ms,
    /// How long a place's grant may be claimed after its message.
    pub claim_time: Ms,
    /// How many replicas have to acknowledge a grant or a renewal that does not say how many.
    pub replicas: u64,
    /// How long a grant or a renewal may wait for acknowledgements.
    pub replica_timeout: Ms,
    /// How many entries LOCK.LOG keeps; 0 for none.
    pub log_max_len: u64,
    /// Are waiters sent away, so that the module can be unloaded?
    pub drain: bool,
}

impl Limits {
    pub const DEFAULT: Self = Self {
        max_ttl: 0,
        max_waiters: 10_000,
        max_waiters_total: 100_000,
        max_sharers: MOST_SHARERS,
        fence_lead: 604_800_000,
        orphan_ttl: 0,
        quarantine: 0,
        max_place_ttl: 60_000,
        claim_time: 2_000,
        replicas: 0,
        replica_timeout: 1_000,
        log_max_len: 128,
        drain: false,
    };

    /// For how much longer holds are written that so many replicas have to acknowledge.
    pub fn spare(&self, replicas: u8) -> Ms {
        if replicas > 0 { self.replica_timeout } else { 0 }
    }

    /// Do more owners share a lock than may? Then no other is let in, and nothing but a step of the
    /// wall clock visits them all.
    pub fn are_too_many(&self, count: usize) -> bool {
        u64::try_from(count).is_ok_and(|count| count > self.max_sharers)
    }
}
