//! How much the module remembers of its locks: the proof that nothing of them is left behind.

use crate::lock::databases::Database;
use crate::lock::locks::Locks;

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

impl Locks {
    /// How much is remembered. The time that this takes does not depend on the number of locks.
    pub fn remembered(&self) -> Remembered {
        let over_databases =
            |count: fn(&Database) -> usize| self.databases.iter().map(|(_, one)| count(one)).sum();
        let tasks = [
            self.noted.len(),
            self.returns.len(),
            self.outbox.len(),
            self.unconfirmed.len(),
            self.replied.len(),
            self.places.messages.len(),
            self.places.endings.len(),
            self.places.channels.count_waking(),
            self.backlog.closed.len(),
            self.backlog.leaving.len(),
            self.backlog.discarded.len(),
            over_databases(|database| database.queues.unseen()),
            over_databases(|database| database.ledger.has_to_sweep().into()),
        ];
        Remembered {
            holds: over_databases(|database| database.ledger.holds()),
            sessions: over_databases(|database| database.ledger.sessions()),
            queues: over_databases(|database| database.queues.len()),
            waiters: self.waiters.len(),
            owners: [
                self.waits.by_owner.len(),
                self.waited_for.len(),
                self.places.channels.len(),
            ]
            .into_iter()
            .sum(),
            alarms: [
                self.waits.times_up.len(),
                self.alarms.len(),
                self.places.claims.len(),
            ]
            .into_iter()
            .sum(),
            tasks: tasks.into_iter().sum(),
        }
    }
}
