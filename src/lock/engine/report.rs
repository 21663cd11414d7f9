//! Reports on locks: their holders and waiters. They write no key.

use crate::lock::engine::locks::Locks;
use crate::lock::holds::Holds;
use crate::lock::keyspace::Glance;
use crate::lock::lock::LockState;
use crate::lock::log::LossLog;
use crate::lock::log::entry::LogEntry;
use crate::lock::turn::Turn;
use crate::lock::waiting::Waiting;
use crate::lock::words::{Fence, Hold, Ms, NameRef, NotALock, Now};
use crate::lock::{QueuedWaiter, WaitingGroup};

/// What is left of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Milliseconds, at least 1.
    Ms(Ms),
    Unlimited,
}

/// A lock that has a holder or a waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How it is held. A lock with a queue may be free for a moment: the server may have refused a grant, or
    /// the first waiter waits for other locks too.
    pub hold: Option<Hold>,
    pub holders: Vec<Holder>,
    pub count: usize,
    pub waiters: Vec<QueuedWaiter>,
    pub queue: usize,
    /// Of those that wait with FAIR.
    pub groups: Vec<WaitingGroup>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub owner: Vec<u8>,
    pub left: Left,
    /// What this server remembers of the grant, if it has made it.
    pub grant: Option<Grant>,
    /// How much longer the grant may be claimed, if it is a place's.
    pub claim: Option<Ms>,
    /// How many replicas have to acknowledge the grant before its owner hears of it.
    pub pending: Option<u8>,
}

/// What this server remembers of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub fence: Fence,
    /// How long the lock has been held.
    pub held: Ms,
    /// The id of the client that it was granted to.
    pub client: u64,
}

/// The present holder of a lock that another owner has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderNow {
    /// The owner; of a shared lock, the first of its holders.
    pub owner: Vec<u8>,
    /// Its fencing token, if this server granted it.
    pub fence: Option<Fence>,
}

/// What reports are made from. Of holds it is noted only that a key has expired too early.
pub struct Reports<'l> {
    holds: &'l mut Holds,
    waiting: &'l Waiting,
    log: &'l LossLog,
}

impl Locks {
    pub fn reports(&mut self) -> Reports<'_> {
        let Self { holds, waiting, log, .. } = self;
        Reports { holds, waiting, log }
    }
}

impl Reports<'_> {
    /// `LOCK.INFO`: returns a report on this lock, if it has a holder or a waiter. It lists at most `most` holders
    /// and waiters, and counts all.
    pub fn report(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        most: usize,
    ) -> Result<Option<Report>, NotALock> {
        let now = turn.now;
        let lock = self.holds.state(turn, name);
        if lock == LockState::NoLock {
            return Err(NotALock);
        }
        let (hold, count) = (lock.hold(), lock.holders());
        let found = self.holds.holders(turn, name, most);
        let holders = (found.iter().zip(hold.iter().cycle()))
            .map(|(&(ref owner, deadline), &hold)| {
                let entry = self.holds.entry(name, owner, hold);
                let offered = entry.and_then(|entry| entry.delivery.offered_to());
                let place = offered.and_then(|ticket| self.waiting.waits.get(ticket)?.place());
                Holder {
                    left: left_until(deadline, now),
                    grant: entry.and_then(|entry| {
                        Some(Grant {
                            fence: entry.fence()?,
                            held: now.ms().saturating_sub(entry.since),
                            client: entry.client,
                        })
                    }),
                    pending: entry.and_then(|entry| {
                        let pending = self.waiting.pending.get(entry.delivery.offered_to()?)?;
                        Some(pending.replicas)
                    }),
                    claim: place.map(|place| {
                        let end =
                            deadline.map_or(place.claim_ends, |end| end.min(place.claim_ends));
                        end.saturating_sub(now.ms())
                    }),
                    owner: owner.to_vec(),
                }
            })
            .collect();
        let (waiters, queue) = self.waiting.report(name, most, now);
        let groups = self.waiting.report_groups(name, most);
        let report = Report { hold, holders, count, waiters, queue, groups };
        Ok((report.count > 0 || report.queue > 0).then_some(report))
    }

    /// `LOCK.SCAN`: returns whether this key is listed. A shared lock is, and a string if this server
    /// knows its owner or, with `all`, if it could be an owner and will expire.
    pub fn lists(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, all: bool) -> bool {
        match turn.keys.glance(name) {
            Glance::NoLock => false,
            Glance::Shared => self.holds.state(turn, name).hold() == Some(Hold::Shared),
            Glance::Token => {
                // `all` must not leave out what is listed without it, even if the key has no expiry any
                // more.
                (all && self.holds.ends(turn, name)) || self.holds.know_holder(turn, name)
            }
        }
    }

    /// `LOCK.LOG`: returns up to `most` losses, the newest first, each with the present holder of the lock.
    pub fn losses(
        &mut self,
        turn: &mut Turn<'_>,
        most: usize,
    ) -> Vec<(LogEntry, Option<HolderNow>)> {
        let log = self.log;
        let with_holder = |line: &LogEntry| (line.clone(), self.holder_now(turn, line));
        log.newest().take(most).map(with_holder).collect()
    }

    fn holder_now(&mut self, turn: &mut Turn<'_>, line: &LogEntry) -> Option<HolderNow> {
        let (about, _) = line.lost.as_ref()?;
        let (db, key) = (line.db?, about.key.whole()?);
        let name = self.holds.name(db, key);
        let hold = self.holds.state(turn, name).hold()?;
        let (owner, _) = self.holds.holders(turn, name, 1).pop()?;
        let entry = self.holds.entry(name, &owner, hold);
        Some(HolderNow { owner: owner.into_vec(), fence: entry.and_then(|entry| entry.fence()) })
    }
}

pub(super) fn left_until(deadline: Option<Ms>, now: Now) -> Left {
    deadline.map_or(Left::Unlimited, |deadline| Left::Ms(deadline.saturating_sub(now.ms()).max(1)))
}
