//! How much the module remembers of its locks: the proof that nothing of them is left behind.

/// How many things of each kind are remembered. All are 0 once there are no holds and no waiters, and all
/// pending work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Holds that have an entry in a ledger.
    pub holds: usize,
    /// Connections with holds that end with them, once for each database.
    pub sessions: usize,
    /// Locks with a queue.
    pub queues: usize,
    /// Waiters that have not ended, whether or not they have been replied to; and places.
    pub waiters: usize,
    /// Requests by owner, owners of locks that have waiters, and channels.
    pub owners: usize,
    /// Points in time at which something is due.
    pub alarms: usize,
    /// Pieces of work that are still to be done.
    pub tasks: usize,
}
