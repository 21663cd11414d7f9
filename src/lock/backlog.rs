//! What is done in portions, and is not done yet.

use std::collections::{BTreeSet, VecDeque};

use super::ledger::discarded::Discarded;
use super::queue::leaving::Leaving;

/// Work that no command waits for. Some of it is done in each tick.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// Those who wait no more, and still stand in queues.
    pub leaving: VecDeque<Leaving>,
    /// Connections that have closed, with which holds end that have not been seen to.
    pub closed: BTreeSet<u64>,
    /// Is anything remembered of keys in slots that have left?
    pub sweeps: bool,
    /// What is forgotten, and not freed yet.
    pub discarded: Discarded,
}
