//! Work that is done in portions, and is left to do.

use std::collections::{BTreeSet, VecDeque};

use super::ledger::discarded::Discarded;
use super::queue::leaving::Leaving;

/// Work that no command waits for. Some of it is done in each tick.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Requests that no longer wait, and have still to be taken out of their queues.
    pub leaving: VecDeque<Leaving>,
    /// Clients whose connections have closed, and whose tied holds have still to be ended.
    pub closed: BTreeSet<u64>,
    /// May ledgers still have records of slots that have left?
    pub sweeps: bool,
    /// Records that are forgotten, and have still to be freed.
    pub discarded: Discarded,
}
