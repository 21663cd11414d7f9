//! How much the server remembers of its locks: what tells that nothing of them is left behind.

use crate::lock::databases::Database;
use crate::lock::locks::Locks;

/// How many things of each kind are remembered. Once nobody holds or waits for anything, and what was
/// to be done is done, there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Holds whose fencing number is known.
    pub holds: usize,
    /// Connections that holds end with.
    pub sessions: usize,
    /// Locks with a queue.
    pub queues: usize,
    /// Waiters that have not come to their end, replied to or not.
    pub waiters: usize,
    /// Owners that wait, or hold what others wait for.
    pub owners: usize,
    /// Times at which something is due.
    pub alarms: usize,
    /// Pieces of work, and of news, that nobody has seen to yet.
    pub tasks: usize,
}

impl Locks {
    /// How much is remembered. That takes no longer when there are many locks.
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
