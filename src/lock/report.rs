//! Who holds a lock, and who waits for it. Reading changes nothing about either.

use std::rc::Rc;

use super::fence::Fence;
use super::keyspace::Glance;
use super::ledger::reserved::Reserved;
use super::ledger::token::Token;
use super::locks::Locks;
use super::name::{Db, NameRef};
use super::queue::Queue;
use super::queue::ticket::Ticket;
use super::request::{Hold, Mode, NotALock};
use super::state::{LockState, Turn, earlier};
use super::time::{Ms, Now, is_over};

/// How many holders and how many waiters a report names.
const MOST_NAMED: usize = 100;

/// What is left of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// So many milliseconds, at least 1.
    Ms(Ms),
    /// It has no end.
    Unlimited,
}

/// A lock that somebody holds or waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How it is held; not at all for a moment, where the server would not let us grant it, or where
    /// the first in the queue waits for other locks too.
    pub hold: Option<Hold>,
    /// Who holds it; the first hundred.
    pub holders: Vec<Holder>,
    /// How many hold it.
    pub count: usize,
    /// Those who wait for it, in order; the first hundred.
    pub waiters: Vec<QueuedWaiter>,
    /// How many wait for it.
    pub queue: usize,
}

/// Owners, and until when they hold a lock.
type Found = Vec<(Vec<u8>, Option<Ms>)>;

/// Somebody who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The owner.
    pub owner: Vec<u8>,
    /// How much longer.
    pub left: Left,
    /// What the server remembers of the grant, if it was this server's.
    pub grant: Option<Grant>,
    /// How much longer it may be claimed, if its owner has to do that.
    pub claim: Option<Ms>,
}

/// What the server remembers of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its fencing number.
    pub fence: Fence,
    /// For how long it has been held.
    pub held: Ms,
    /// The connection that it was granted to.
    pub client: u64,
}

/// Somebody who waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedWaiter {
    /// The owner.
    pub owner: Rc<[u8]>,
    /// What it waits for.
    pub mode: Mode,
    /// For how long it has waited.
    pub waited: Ms,
    /// The connection that waits, or that has asked last.
    pub client: u64,
    /// Its place, if it waits without a blocked connection.
    pub place: Option<PlaceInQueue>,
}

/// A place in the queue, which its owner keeps by asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceInQueue {
    /// Where it stands, counted from 1.
    pub place: usize,
    /// For how much longer it is kept if its owner does not ask.
    pub lease: Ms,
    /// Is it passed over until its owner asks?
    pub asleep: bool,
}

impl Locks {
    /// `LOCK.INFO`: the lock, if anybody holds it or waits for it.
    pub fn report(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
    ) -> Result<Option<Report>, NotALock> {
        let now = turn.now;
        let (hold, count, found) = match self.look(turn, name) {
            LockState::Reserved(reserved) => self.reserved_holders(name, reserved, now),
            LockState::NoLock => return Err(NotALock),
            LockState::Free => (None, 0, Vec::new()),
            LockState::Exclusive { owner, deadline } => {
                let found = vec![(owner.to_vec(), deadline)];
                (Some(Hold::Exclusive), 1, found)
            }
            LockState::Shared { count, .. } => {
                (Some(Hold::Shared), count, self.first_shares(turn, name))
            }
        };
        let holders = (found.into_iter().zip(hold.iter().cycle()))
            .map(|((owner, deadline), &hold)| Holder {
                left: left_until(deadline, now),
                grant: self.grant_of(name, &owner, hold, now),
                claim: (self.claim_ends(name, &owner, hold))
                    .map(|end| end.saturating_sub(now.ms())),
                owner,
            })
            .collect();
        let (waiters, queue) = self.waiting(name, now);
        let report = Report {
            hold,
            holders,
            count,
            waiters,
            queue,
        };
        Ok((report.count > 0 || report.queue > 0).then_some(report))
    }

    /// `LOCK.SCAN`: is this a lock that is held: a shared one, or one whose owner this server knows?
    /// With `all` any that could be one by its form.
    pub fn lists(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, all: bool) -> bool {
        match turn.keys.glance(name) {
            Glance::NoLock => false,
            Glance::Shared => matches!(self.look(turn, name), LockState::Shared { .. }),
            Glance::Token => {
                // What was granted is listed without `all`, so with it too, whatever became of its
                // end.
                let lasts = |deadline| !is_over(Some(deadline), turn.now);
                (all && turn.keys.deadline(name).is_some_and(lasts)) || self.knows_owner(turn, name)
            }
        }
    }

    /// The same, where there may be no key because it has gone too early.
    pub fn lists_reserved(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        matches!(self.look(turn, name), LockState::Reserved(_))
    }

    /// The keys of some of this database's locks that are reserved, about so many: from this time on, and at
    /// which time to go on, if there are more.
    pub fn some_reserved(&self, db: Db, from: Ms, about: usize) -> (Vec<Box<[u8]>>, Option<Ms>) {
        let database = self.databases.get(db);
        database.map_or_else(Default::default, |one| {
            one.ledger.some_reserved(from, about)
        })
    }

    fn knows_owner(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        self.ledger(name.db).knows(name.key)
            && matches!(
                self.look(turn, name),
                LockState::Exclusive { owner, .. }
                    if self.ledger(name.db).of(name.key, owner, Hold::Exclusive).is_some()
            )
    }

    fn grant_of(&mut self, name: NameRef<'_>, owner: &[u8], hold: Hold, now: Now) -> Option<Grant> {
        let entry = self.ledger(name.db).of(name.key, owner, hold)?;
        Some(Grant {
            fence: entry.fence?,
            held: now.ms().saturating_sub(entry.since),
            client: entry.client,
        })
    }

    /// Who holds a lock whose key has gone too early.
    fn reserved_holders(
        &mut self,
        name: NameRef<'_>,
        reserved: Reserved,
        now: Now,
    ) -> (Option<Hold>, usize, Found) {
        let found = match reserved.hold {
            Hold::Exclusive => {
                let owner = self.ledger(name.db).reserved_owner(name.key);
                let with_end = |owner: Token| (owner.bytes().to_vec(), Some(reserved.first_end));
                owner.map(with_end).into_iter().collect()
            }
            Hold::Shared => (self.ledger(name.db).each_reserved(name.key, now))
                .map(|(owner, end)| (owner.bytes().to_vec(), Some(end)))
                .take(MOST_NAMED)
                .collect(),
        };
        (Some(reserved.hold), reserved.count, found)
    }

    /// The first of those who share a lock, and until when.
    fn first_shares(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> Found {
        let now = turn.now;
        let is_stepped = self.is_stepped(now);
        let key_ends = turn.keys.deadline(name);
        let mut found = Vec::new();
        // After a step of the wall clock their order may not be that of their ends.
        let from = if is_stepped { 0 } else { now.ms() };
        turn.keys.each_share(name, from, &mut |owner, share| {
            let end = earlier(share.deadline, key_ends);
            let end = self.share_end(now, name, owner, end);
            if !is_over(end, now) {
                found.push((owner.to_vec(), end));
            }
            found.len() < MOST_NAMED
        });
        found
    }

    /// The first in this queue, in order: those who stand there, or count as standing there; then those who
    /// sleep.
    fn first_waiting(&self, queue: &Queue) -> Vec<Ticket> {
        let standing = queue.iter().filter(|&ticket| self.is_waiting(ticket));
        let mut first: Vec<Ticket> = standing.take(MOST_NAMED).collect();
        for channel in self.places.channels.waking() {
            first.extend(queue.aside_with(channel).take(MOST_NAMED));
        }
        first.sort_by_key(|&ticket| (!queue.is_upgrade(ticket), ticket));
        let asleep = queue.asleep.iter().copied();
        first.extend(
            asleep
                .filter(|&ticket| self.sleeps(ticket))
                .take(MOST_NAMED),
        );
        first.truncate(MOST_NAMED);
        first
    }

    fn waiting(&mut self, name: NameRef<'_>, now: Now) -> (Vec<QueuedWaiter>, usize) {
        let Some(queue) = self
            .databases
            .get(name.db)
            .and_then(|database| database.queues.get(name.key))
        else {
            return (Vec::new(), 0);
        };
        let waiters = (self.first_waiting(queue).into_iter())
            .filter_map(|ticket| Some((ticket, self.waiters.get(&ticket)?)))
            .map(|(ticket, waiter)| QueuedWaiter {
                owner: Rc::clone(&waiter.owner),
                mode: waiter.mode(),
                waited: now.ms().saturating_sub(waiter.since.ms()),
                client: waiter.client,
                place: self.lease_of(ticket).map(|(_, until)| PlaceInQueue {
                    place: self.before_in(queue, ticket).saturating_add(1),
                    lease: until.saturating_sub(now.ms()),
                    asleep: self.sleeps(ticket),
                }),
            })
            .collect();
        let count = self.wait_here(queue).saturating_add(queue.asleep.len());
        (waiters, count)
    }
}

pub(super) fn left_until(deadline: Option<Ms>, now: Now) -> Left {
    deadline.map_or(Left::Unlimited, |deadline| {
        Left::Ms(deadline.saturating_sub(now.ms()).max(1))
    })
}
