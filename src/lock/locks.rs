//! All locks of a server, and what may be asked of them at any time.

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

/// How a key has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Its time was over.
    Expired,
    /// The server needed the memory.
    Evicted,
    /// Somebody has put it elsewhere.
    Renamed,
    /// Somebody has deleted it.
    Otherwise,
}

/// Everything that the server remembers of its locks. All of it may be lost without harm: who holds
/// a lock stands in the key.
#[derive(Debug)]
pub struct Locks {
    /// What is remembered of each database: holds by the ledger, and queues.
    pub(super) databases: Databases,
    /// Requests that wait, or have waited and have not come to their end.
    pub(super) waiters: Waiters,
    /// What there is of those that are places.
    pub(super) places: Places,
    /// Who waits for how much, and until when.
    pub(super) waits: Waits,
    /// What is done in portions, and is not done yet.
    pub(super) backlog: Backlog,
    /// How many locks that somebody waits for each owner holds.
    pub(super) waited_for: HashMap<Rc<[u8]>, usize, FixedState>,
    /// Where fencing numbers come from.
    pub(super) clock: FencingClock,
    /// What keys and owners are hashed with, so that nobody can make hashes meet.
    pub(super) secret: Secret,
    /// When which lock with a queue is to be looked at again.
    pub(super) alarms: BTreeSet<(Ms, Name)>,
    /// How many queues there are before keys that are no locks.
    pub(super) no_locks: usize,
    /// Locks that something has happened to.
    pub(super) noted: BTreeSet<Name>,
    /// Holds that may have to be given back, and when to look at each.
    pub(super) returns: BTreeSet<(Ms, Return)>,
    /// Until when writing waits, because the server would not let us.
    pub(super) put_off: Option<Ms>,
    /// The wall clock, by which keys expire.
    pub(super) wall: WallClock,
    /// Until then there may be holds whose keys don't agree with it, because it has been stepped.
    pub(super) stepped_until: Ms,
    /// When the last hold ends that was granted here, or renewed.
    pub(super) last_end: Ms,
    /// What an operator has set.
    pub(super) limits: Limits,
    /// What searches for deadlocks may still cost.
    pub(super) searches: Allowance,
    /// Out of how many queues a waiter is taken at once.
    pub(super) few_queues: usize,
    /// What has been done.
    pub(super) counts: Counts,
    /// Which holds were lost last, and why.
    pub(super) log: LossLog,
    /// What others have still to hear of.
    pub(super) outbox: Outbox,
    /// Until when nobody comes to hold a lock: holds that are not known here have run out by then.
    pub(super) quarantined_until: Option<Ms>,
    /// Those who have come to their end as if they had heard of their grants, and the numbers of
    /// these, until it is known whether their connections have outlived the turn.
    pub(super) unconfirmed: Vec<(Waiter, Fence)>,
    /// Those who were told of their grants in this turn, and have yet to come to their end.
    pub(super) replied: Vec<Ticket>,
}

impl Locks {
    /// No locks yet.
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

    /// Does it matter to us what happens to this key?
    pub fn concerns(&self, name: NameRef<'_>) -> bool {
        self.databases.get(name.db).is_some_and(|database| {
            (self.has_queues() && database.queues.contain(name.key))
                || database.ledger.knows(name.key)
        })
    }

    /// Is there no key in this database whose fate matters to us?
    pub fn remember_nothing_of(&self, db: Db) -> bool {
        (self.databases.get(db)).is_none_or(Database::remembers_nothing)
    }

    /// Nor in any other?
    pub fn remember_nothing(&self) -> bool {
        !self.databases.any(|database| !database.remembers_nothing())
    }

    /// Does anybody wait for this lock?
    pub fn is_waited_for(&self, name: NameRef<'_>) -> bool {
        self.has_queues()
            && (self.databases.get(name.db))
                .is_some_and(|database| database.queues.contain(name.key))
    }

    /// Somebody else has touched this key, which is still there. It is looked at in the next
    /// [`tick`](Self::tick).
    pub fn touched(&mut self, name: Name, now: Now) {
        self.end_by_wall(name.borrow(), now);
        self.note(name);
    }

    /// Something has happened to this key. It is looked at in the next [`tick`](Self::tick).
    pub fn note(&mut self, name: Name) {
        if let Some(queue) = self.queue(name.borrow()) {
            queue.stale = true;
        }
        self.noted.insert(name);
    }

    /// This key is gone, whatever may come in its place: so is the hold that it was. The queue is
    /// seen to in the next [`tick`](Self::tick).
    pub fn gone(&mut self, name: Name, how: Gone, now: Now) {
        match how {
            // By the wall clock alone.
            Gone::Expired if self.reserve_expired(name.borrow(), now) => {}
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

    /// A database was emptied, or all of them.
    pub fn flushed(&mut self, db: Option<Db>) {
        for (number, database) in self.databases.iter_mut() {
            if db.is_none_or(|db| db == number) {
                let ledger = std::mem::replace(&mut database.ledger, Ledger::new(self.secret));
                ledger.discard(&mut self.backlog.discarded);
                database.queues.touch_all();
            }
        }
    }

    /// Two databases have changed places. The clients that wait in them have not.
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
        // Grants whose news is under way have moved with their keys.
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
        // What has happened to a key has happened to its hold, which has moved, and to its queue,
        // which has not.
        let mut moved: Vec<Name> = self.noted.iter().cloned().collect();
        moved
            .iter_mut()
            .for_each(|name| change_places(&mut name.db));
        self.noted.extend(moved);
    }

    /// This server has become a master, or has read its keys from a disk or from another server:
    /// grants were made elsewhere, or before.
    pub fn took_over(&mut self, now: Now) {
        self.flushed(None);
        self.clock.take_over(now);
        self.quarantined_until =
            (self.limits.quarantine > 0).then(|| now.plus(self.limits.quarantine));
    }

    /// This server's files were last written then, by the wall clock: fencing numbers begin above those of
    /// that time.
    pub fn begin_after(&mut self, written: Ms, now: Now) {
        self.clock.begin_after(written, now);
    }

    /// These slots have left for another server, with what was held in them.
    pub fn slots_left(&mut self, ranges: &[RangeInclusive<Slot>]) {
        let slots = Rc::new(Slots::of(ranges));
        let number = self.clock.between();
        for (_, database) in self.databases.iter_mut() {
            database.ledger.slots_left(&slots, number);
            self.backlog.sweeps |= database.ledger.has_to_sweep();
        }
        self.end_places(Ending::InSlots(slots));
        for slot in ranges.iter().cloned().flatten() {
            self.clock.slot_may_have_left(slot);
        }
    }

    /// The slot of this key may have left.
    pub(super) fn slot_may_have_left(&mut self, key: &[u8]) {
        if let Some(slot) = self.clock.slot(key) {
            self.clock.slot_may_have_left(slot);
        }
    }

    /// What an operator has set.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// An operator sets something.
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

    /// How many wait, and for how many locks.
    pub fn waiting_now(&self) -> (usize, usize) {
        let queues = (self.databases.iter()).map(|(_, database)| database.queues.len());
        (self.waits.len(), queues.sum())
    }

    /// What has been done.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many holds there are that were counted as they were granted, and how many of those that are no more
    /// have ended otherwise than by what is counted apart: their keys were deleted, overwritten, renamed or
    /// flushed, or are another server's.
    pub fn held_and_lost(&self) -> (u64, u64) {
        let held = (self.databases.iter()).map(|(_, database)| database.ledger.counted());
        let held = u64::try_from(held.sum::<usize>()).unwrap_or_default();
        let lost = self.counts.acquired.saturating_sub(self.counts.ended());
        (held, lost.saturating_sub(held))
    }

    /// How long those have waited who were granted something since this was asked.
    pub fn take_waited(&mut self) -> Vec<Ms> {
        std::mem::take(&mut self.outbox.waited)
    }

    /// Holds that ran out while others waited, since this was asked.
    pub fn take_lapsed(&mut self) -> Vec<Lapse> {
        std::mem::take(&mut self.outbox.lapsed)
    }

    /// A message has been published.
    pub fn published(&mut self) {
        count(&mut self.counts.notified, 1);
    }

    /// This server has become a replica: somebody else grants now. Whoever still waits is sent away.
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

    /// The waiters whose clients are to be replied to now, in the order in which that was decided.
    /// Their clients must be woken; each then asks for its [`outcome`](Self::outcome).
    pub fn take_to_reply(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.outbox.to_reply)
    }

    /// All of these have been told: their memory is good for the next ones.
    pub fn told(&mut self, mut replied: Vec<Ticket>, mut waited: Vec<Ms>) {
        replied.clear();
        waited.clear();
        keep_room(&mut self.outbox.to_reply, replied);
        keep_room(&mut self.outbox.waited, waited);
    }

    /// Has every lock with a queue looked at.
    pub fn note_all(&mut self) {
        for (_, database) in self.databases.iter_mut() {
            database.queues.touch_all();
        }
    }

    /// Is there any queue? Without one a command has nothing to settle.
    #[inline]
    pub(super) fn has_queues(&self) -> bool {
        !self.waiters.is_empty() || !self.backlog.leaving.is_empty()
    }

    /// The queue before this lock, if anybody waits.
    pub(super) fn queue(&mut self, name: NameRef<'_>) -> Option<&mut Queue> {
        if !self.has_queues() {
            return None;
        }
        self.databases.get_mut(name.db)?.queues.get_mut(name.key)
    }

    /// The ledger of this database.
    pub(super) fn ledger(&mut self, db: Db) -> &mut Ledger {
        &mut self.databases.open(db).ledger
    }

    fn take_ledger(&mut self, db: Db) -> Ledger {
        let empty = Ledger::new(self.secret);
        std::mem::replace(self.ledger(db), empty)
    }
}
