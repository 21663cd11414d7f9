//! All locks of a server, and how they learn what has happened to keys, databases and the server.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::rc::Rc;

use foldhash::quality::FixedState;

use super::backlog::Backlog;
use super::budget::Budget;
use super::databases::{Database, Databases};
use super::fence::{Fence, FencingClock};
use super::ledger::Ledger;
use super::limits::Limits;
use super::log::LossLog;
use super::log::line::Reason;
use super::losses::Seen;
use super::name::{Db, Name, NameRef};
use super::outbox::{Lapse, Outbox};
use super::place::{Ending, Places};
use super::queue::Queue;
use super::queue::leaving::FEW_QUEUES;
use super::queue::ticket::Ticket;
use super::queue::waiters::Waiters;
use super::queue::waits::Waits;
use super::returns::Return;
use super::room::keep_room;
use super::stats::{Counts, count};

use super::deadlock::steps::Allowance;
use super::ledger::print::Secret;
use super::slot::{Slot, Slots};

use super::queue::waiter::Waiter;
use super::time::{Ms, Now};
use super::wall::WallClock;

/// How a key was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It has expired.
    Expired,
    /// The server has evicted it, to free memory.
    Evicted,
    /// A client has renamed or moved it.
    Renamed,
    /// Anything else: a client has deleted it.
    Otherwise,
}

/// Everything that the server remembers of its locks. After a restart it begins empty: the keys alone
/// then say who holds a lock.
#[derive(Debug)]
pub struct Locks {
    /// The holds and queues of each database.
    pub(super) databases: Databases,
    /// Requests that wait, or have waited and have yet to end.
    pub(super) waiters: Waiters,
    /// What is kept of places beside their waiters.
    pub(super) places: Places,
    /// Indexes of the requests that wait: by owner, by age, by the end of their time.
    pub(super) waits: Waits,
    /// Work that is done in portions, and is left to do.
    pub(super) backlog: Backlog,
    /// How many locks with a queue each owner holds.
    pub(super) waited_for: HashMap<Rc<[u8]>, usize, FixedState>,
    /// The clock that gives the fencing numbers.
    pub(super) clock: FencingClock,
    /// The key of all hashes of keys and owners, so that no client can make them collide.
    pub(super) secret: Secret,
    /// When each lock with a queue is to be looked at again.
    pub(super) alarms: BTreeSet<(Ms, Name)>,
    /// How many queues wait for keys that are not locks.
    pub(super) no_locks: usize,
    /// Locks that something has happened to: they are settled in the next tick.
    pub(super) noted: BTreeSet<Name>,
    /// Holds that may have to be given back, by when to look at each.
    pub(super) returns: BTreeSet<(Ms, Return)>,
    /// Until when writing is put off, because the server has refused it.
    pub(super) put_off: Option<Ms>,
    /// The wall clock, by which keys expire.
    pub(super) wall: WallClock,
    /// Until when holds may differ from their keys, because the wall clock has been stepped.
    pub(super) stepped_until: Ms,
    /// The latest end of all holds that were granted or renewed here.
    pub(super) last_end: Ms,
    /// The operator's settings.
    pub(super) limits: Limits,
    /// What searches for deadlocks may cost, all together.
    pub(super) searches: Allowance,
    /// Up to how many queues a waiter is taken out of at once, and not in portions.
    pub(super) few_queues: usize,
    /// The counters of INFO.
    pub(super) counts: Counts,
    /// The last holds that were lost, and why.
    pub(super) log: LossLog,
    /// Replies and events that the shell has yet to fetch.
    pub(super) outbox: Outbox,
    /// Until when nothing is granted: by then holds that this server does not know have expired.
    pub(super) quarantined_until: Option<Ms>,
    /// Waiters that have ended as if their grants had been delivered, with the numbers of these, until it
    /// is known whether their connections outlive the turn of the server's loop.
    pub(super) unconfirmed: Vec<(Waiter, Fence)>,
    /// Waiters whose grants were replied in this turn of the server's loop, and that have yet to end.
    pub(super) replied: Vec<Ticket>,
}

impl Locks {
    /// Begins with nothing remembered.
    pub fn new(now: Now, secret: Secret, in_cluster: bool) -> Self {
        Self {
            databases: Databases::new(secret),
            waiters: Waiters::default(),
            places: Places::default(),
            waits: Waits::default(),
            backlog: Backlog::default(),
            waited_for: HashMap::with_hasher(secret.for_owners()),
            clock: FencingClock::new(now, in_cluster),
            secret,
            alarms: BTreeSet::new(),
            no_locks: 0,
            noted: BTreeSet::new(),
            returns: BTreeSet::new(),
            put_off: None,
            wall: WallClock::default(),
            stepped_until: 0,
            last_end: 0,
            limits: Limits::DEFAULT,
            searches: Allowance::new(),
            few_queues: FEW_QUEUES,
            counts: Counts::new(),
            log: LossLog::new(Limits::DEFAULT.log_max_len),
            outbox: Outbox::default(),
            quarantined_until: None,
            unconfirmed: Vec::new(),
            replied: Vec::new(),
        }
    }

    /// Does this key matter: is there a hold in the ledger, or a queue?
    pub fn concerns(&self, name: NameRef<'_>) -> bool {
        self.databases.get(name.db).is_some_and(|database| {
            (self.has_queues() && database.queues.contain(name.key))
                || database.ledger.knows(name.key)
        })
    }

    /// Are there no holds and no queues in this database?
    pub fn remember_nothing_of(&self, db: Db) -> bool {
        (self.databases.get(db)).is_none_or(Database::remembers_nothing)
    }

    /// Are there no holds and no queues in any database?
    pub fn remember_nothing(&self) -> bool {
        !self.databases.any(|database| !database.remembers_nothing())
    }

    /// Does any request wait for this lock?
    pub fn is_waited_for(&self, name: NameRef<'_>) -> bool {
        self.has_queues()
            && (self.databases.get(name.db))
                .is_some_and(|database| database.queues.contain(name.key))
    }

    /// Another client has changed this key, which is still there. Its holds end by the wall clock from now
    /// on, and the lock is settled in the next [`tick`](Self::tick).
    pub fn touched(&mut self, name: Name, now: Now) {
        self.end_by_wall(name.borrow(), now);
        self.note(name);
    }

    /// Notes that something has happened to this key: it is settled in the next [`tick`](Self::tick).
    pub fn note(&mut self, name: Name) {
        if let Some(queue) = self.queue(name.borrow()) {
            queue.stale = true;
        }
        self.noted.insert(name);
    }

    /// This key was removed, whether or not another one has taken its place: its holds are lost, unless an
    /// expiry came too early. The queue is settled in the next [`tick`](Self::tick).
    pub fn gone(&mut self, name: Name, how: Gone, now: Now) {
        match how {
            // It has expired by the wall clock alone, and the holds last.
            Gone::Expired if self.reserve_after_event(name.borrow(), now) => {}
            Gone::Expired => {
                let queue = self.queue(name.borrow());
                let holders =
                    (queue.filter(|queue| queue.first().is_some())).map(|queue| &queue.holders);
                if let Some(owner) = holders.and_then(|holders| holders.any().cloned()) {
                    let name = name.clone();
                    self.outbox.lapsed.push(Lapse { name, owner });
                }
                if self.lose_all(name.borrow(), (Reason::Expired, Seen::AtOnce), now) > 0 {
                    self.outbox.expired.push_back(name.clone());
                }
            }
            Gone::Evicted | Gone::Renamed | Gone::Otherwise => {
                let reason = match how {
                    Gone::Evicted => Reason::Evicted,
                    Gone::Renamed => Reason::Renamed,
                    Gone::Expired | Gone::Otherwise => Reason::Deleted,
                };
                self.lose_all(name.borrow(), (reason, Seen::AtOnce), now);
            }
        }
        self.note(name);
    }

    /// A database was emptied, or all of them: holds are forgotten, and all queues are looked at again.
    pub fn flushed(&mut self, db: Option<Db>) {
        for (number, database) in self.databases.iter_mut() {
            if db.is_none_or(|db| db == number) {
                let ledger = std::mem::replace(&mut database.ledger, Ledger::new(self.secret));
                ledger.discard(&mut self.backlog.discarded);
                database.queues.touch_all();
            }
        }
    }

    /// Two databases were swapped. Holds move with their keys; clients that wait stay with the number of
    /// their database.
    pub fn swapped(&mut self, one: Db, other: Db) {
        let ledger_of_one = self.take_ledger(one);
        let ledger_of_other = self.take_ledger(other);
        for (db, ledger) in [(one, ledger_of_other), (other, ledger_of_one)] {
            let database = self.databases.open(db);
            database.ledger = ledger;
            database.queues.touch_all();
        }
        let change_places = |db: &mut Db| match *db {
            db_now if db_now == one => *db = other,
            db_now if db_now == other => *db = one,
            _ => {}
        };
        // Grants whose replies are under way have moved with their keys.
        let unconfirmed = self.unconfirmed.iter_mut().map(|(waiter, _)| waiter);
        let waiters = self.waiters.with_client().map(|(_, waiter)| waiter);
        for waiter in waiters.chain(unconfirmed) {
            if waiter.is_granted() {
                let mut names = waiter.names.to_vec();
                names
                    .iter_mut()
                    .for_each(|name| change_places(&mut name.db));
                waiter.names = names.into();
            }
        }
        let returns = std::mem::take(&mut self.returns);
        self.returns
            .extend(returns.into_iter().map(|(at, mut given_back)| {
                change_places(&mut given_back.name.db);
                (at, given_back)
            }));
        // A note concerns a hold, which has moved, and a queue, which has not: so it counts for both names.
        let mut moved: Vec<Name> = self.noted.iter().cloned().collect();
        moved
            .iter_mut()
            .for_each(|name| change_places(&mut name.db));
        self.noted.extend(moved);
    }

    /// This server has become a master, or has loaded its keys from a disk or another server: it does not
    /// know the grants that were made before. Nothing is granted during the quarantine.
    pub fn took_over(&mut self, now: Now) {
        self.flushed(None);
        self.clock.take_over(now);
        self.quarantined_until =
            (self.limits.quarantine > 0).then(|| now.plus(self.limits.quarantine));
    }

    /// This server's files were last written at this time, by the wall clock: fencing numbers begin above it.
    pub fn begin_after(&mut self, written: Ms, now: Now) {
        self.clock.begin_after(written, now);
    }

    /// These slots have moved to another server, with all holds in them: these and the places are dropped.
    pub fn slots_left(&mut self, ranges: &[RangeInclusive<Slot>]) {
        let slots = Rc::new(Slots::of(ranges));
        let number = self.clock.draw_unused();
        for (_, database) in self.databases.iter_mut() {
            database.ledger.slots_left(&slots, number);
            self.backlog.sweeps |= database.ledger.has_to_sweep();
        }
        self.end_places(Ending::InSlots(slots));
        for slot in ranges.iter().cloned().flatten() {
            self.clock.slot_may_have_left(slot);
        }
    }

    /// Tells the fencing clock that the slot of this key may have left.
    pub(super) fn slot_may_have_left(&mut self, key: &[u8]) {
        if let Some(slot) = self.clock.slot(key) {
            self.clock.slot_may_have_left(slot);
        }
    }

    /// Returns the operator's settings.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Changes the operator's settings.
    pub fn set_limits(&mut self, limits: Limits, now: Now) {
        if limits.fence_lead != self.limits.fence_lead {
            self.clock.set_lead(limits.fence_lead, now);
        }
        if limits.drain && !self.limits.drain {
            self.end_places(Ending::All);
        }
        if limits.max_sharers != self.limits.max_sharers {
            self.note_all();
        }
        self.limits = limits;
        self.log.set_most(limits.log_max_len);
        if limits.quarantine == 0 && self.quarantined_until.take().is_some() {
            self.note_all();
        }
    }

    /// Returns how many requests wait, and for how many locks.
    pub fn waiting_now(&self) -> (usize, usize) {
        let queues = (self.databases.iter()).map(|(_, database)| database.queues.len());
        (self.waits.len(), queues.sum())
    }

    /// Returns the counters of INFO.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns how many of the holds that were counted when they were granted are still there, and how many
    /// have ended in a way without a counter of its own: their keys were deleted, overwritten, renamed,
    /// flushed, or moved to another server.
    pub fn held_and_lost(&self) -> (u64, u64) {
        let held = (self.databases.iter()).map(|(_, database)| database.ledger.counted());
        let held = u64::try_from(held.sum::<usize>()).unwrap_or_default();
        let lost = self.counts.acquired.saturating_sub(self.counts.ended());
        (held, lost.saturating_sub(held))
    }

    /// Takes the times that requests have waited which were granted since the last call.
    pub fn take_waited(&mut self) -> Vec<Ms> {
        std::mem::take(&mut self.outbox.waited)
    }

    /// Takes the holds that have expired since the last call while other owners waited.
    pub fn take_lapsed(&mut self) -> Vec<Lapse> {
        std::mem::take(&mut self.outbox.lapsed)
    }

    /// Counts a message that has been published.
    pub fn published(&mut self) {
        count(&mut self.counts.notified, 1);
    }

    /// This server has become a replica: another server grants now. All holds are forgotten, and all
    /// waiters are sent away.
    pub fn stepped_down(&mut self) {
        self.flushed(None);
        for (_, database) in self.databases.iter_mut() {
            database.queues.untouch_all();
        }
        let returns = std::mem::take(&mut self.returns);
        self.backlog
            .discarded
            .add(returns.len(), returns.into_iter());
        let noted = std::mem::take(&mut self.noted);
        self.backlog.discarded.add(noted.len(), noted.into_iter());
        self.backlog.closed.clear();
        self.end_places(Ending::All);
        self.send_all_away();
        self.send_some_away(&mut Budget::of(Budget::PORTION));
    }

    /// Takes the waiters whose clients must be unblocked now, in the order in which that was decided. Each
    /// reply is then the waiter's [`outcome`](Self::outcome).
    pub fn take_to_reply(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.outbox.to_reply)
    }

    /// Gives back the lists of those that were replied to and of how long they have waited, so that their
    /// memory is used again.
    pub fn told(&mut self, mut replied: Vec<Ticket>, mut waited: Vec<Ms>) {
        replied.clear();
        waited.clear();
        keep_room(&mut self.outbox.to_reply, replied);
        keep_room(&mut self.outbox.waited, waited);
    }

    /// Marks every lock with a queue as to be looked at again.
    pub fn note_all(&mut self) {
        for (_, database) in self.databases.iter_mut() {
            database.queues.touch_all();
        }
    }

    /// May there be any queue? Without one a command has nothing to settle.
    #[inline]
    pub(super) fn has_queues(&self) -> bool {
        !self.waiters.is_empty() || !self.backlog.leaving.is_empty()
    }

    /// Returns the queue of this lock, to be changed, if it has one.
    pub(super) fn queue(&mut self, name: NameRef<'_>) -> Option<&mut Queue> {
        if !self.has_queues() {
            return None;
        }
        self.databases.get_mut(name.db)?.queues.get_mut(name.key)
    }

    /// Returns the ledger of this database.
    pub(super) fn ledger(&mut self, db: Db) -> &mut Ledger {
        &mut self.databases.open(db).ledger
    }

    fn take_ledger(&mut self, db: Db) -> Ledger {
        let empty = Ledger::new(self.secret);
        std::mem::replace(self.ledger(db), empty)
    }
}
