//! What an operator may set.

use super::time::Ms;

/// In how many queues one owner may stand at once, by all its requests.
pub const MOST_QUEUES: u64 = 4096;

/// How many may share one lock at the most, whatever is set: what is done to each of them takes time.
pub const MOST_SHARERS: u64 = 10_000;

/// Settings. They are asked when a request arrives, or its turn comes: a change touches no hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest ttl that is accepted; 0 for any.
    pub max_ttl: Ms,
    /// How many may wait for one lock; 0 for any number.
    pub max_waiters: u64,
    /// How many places there may be in all queues together, of which a request for several locks takes
    /// one in each; 0 for any number.
    pub max_waiters_total: u64,
    /// How many may share one lock; [`MOST_SHARERS`] at most.
    pub max_sharers: u64,
    /// How far ahead of the wall clock fencing numbers begin at a start and at a takeover.
    pub fence_lead: Ms,
    /// The ttl that a string without one is given when somebody asks for it as a lock; 0 for none.
    pub orphan_ttl: Ms,
    /// For how long after it takes over the server makes no new holder; 0 for not at all.
    pub quarantine: Ms,
    /// The longest lease of a place that is accepted; 0 for any.
    pub max_lease: Ms,
    /// For how long after its message has been sent a grant waits to be claimed.
    pub claim_time: Ms,
    /// How many lines of LOCK.LOG are remembered; 0 for none.
    pub log_max_len: u64,
    /// Are waiters sent away, so that the module can be unloaded?
    pub drain: bool,
}

impl Limits {
    /// What is set where nothing is said.
    pub const DEFAULT: Self = Self {
        max_ttl: 0,
        max_waiters: 10_000,
        max_waiters_total: 100_000,
        max_sharers: 1_000,
        fence_lead: 604_800_000,
        orphan_ttl: 0,
        quarantine: 0,
        max_lease: 60_000,
        claim_time: 2_000,
        log_max_len: 128,
        drain: false,
    };
}
