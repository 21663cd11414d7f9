//! All locks of a server, and what may be asked of them at any time.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::RangeInclusive;
use std::rc::Rc;

use super::databases::{Database, Databases};
use super::fence::{Fence, FencingClock};
use super::hashing::Keyed;
use super::ledger::Ledger;
use super::limits::Limits;
use super::name::{Db, Name, NameRef};
use super::queue::Queue;
use super::queue::ticket::{ByTicket, Ticket};
use super::queue::waits::OwnerWaits;
use super::returns::{Kept, Return};
use super::stats::{Counts, count};

use super::deadlock::steps::MOST_STEPS;
use super::ledger::print::Secret;
use super::slot::{Slot, Slots};

use super::queue::waiter::{State, Waiter};
use super::time::{Ms, Now};

/// How a key has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Its time was over.
    Expired,
    /// The server needed the memory.
    Evicted,
    /// Somebody has deleted it, or put it elsewhere.
    Otherwise,
}

/// A hold that ran out while others waited for the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lapse {
    /// The lock.
    pub name: Name,
    /// Who held it.
    pub owner: Rc<[u8]>,
}

/// Everything that the server remembers of its locks. All of it may be lost without harm: who holds
/// a lock stands in the key.
#[derive(Debug)]
pub struct Locks {
    pub(super) databases: Databases,
    pub(super) waiters: ByTicket<Waiter>,
    /// How many wait.
    pub(super) waiting: usize,
    /// In how many queues they stand.
    pub(super) places: usize,
    /// What each owner waits for.
    pub(super) waits: HashMap<Rc<[u8]>, OwnerWaits, Keyed>,
    /// How many locks that somebody waits for each owner holds.
    pub(super) waited_for: HashMap<Rc<[u8]>, usize, Keyed>,
    /// Locks that somebody waits for and that a crowd shares: its owners are not among these.
    pub(super) crowds: BTreeSet<Name>,
    /// Locks whose shares an operator ends, in portions, and when to go on with each.
    pub(super) cuts: BTreeSet<(Ms, Name)>,
    pub(super) last_ticket: Ticket,
    pub(super) clock: FencingClock,
    pub(super) secret: Secret,
    /// When whose time is up.
    pub(super) times_up: BTreeSet<(Ms, Ticket)>,
    /// When which lock with a queue is to be looked at again.
    pub(super) alarms: BTreeSet<(Ms, Name)>,
    /// How many queues there are before keys that are no locks.
    pub(super) no_locks: usize,
    /// Locks that something has happened to.
    pub(super) noted: BTreeSet<Name>,
    /// Locks whose first in the queue has been granted something, while that is being settled.
    pub(super) moved_up: Vec<Name>,
    /// Who has come to share which lock that has a queue, and waits for something, while that is being
    /// settled.
    pub(super) joined: VecDeque<(Name, Rc<[u8]>)>,
    /// The shares that owners had of what they have been granted alone, until one of them hears of it.
    pub(super) kept: BTreeMap<(Name, Rc<[u8]>), Kept>,
    /// Connections with which some of these shares may end: so the close of any other one asks none
    /// of them.
    pub(super) had_tied_shares: HashSet<u64>,
    /// Holds that have to be given back, and when to see to each.
    pub(super) returns: BTreeSet<(Ms, Return)>,
    /// Until when writing waits, because the server would not let us.
    pub(super) put_off: Option<Ms>,
    /// What an operator has set.
    pub(super) limits: Limits,
    /// How many steps a search for deadlocks may take.
    pub(super) most_steps: usize,
    /// What has been done.
    pub(super) counts: Counts,
    /// How long those have waited who were granted something since somebody asked, in milliseconds.
    pub(super) waited: Vec<Ms>,
    /// Locks whose holder's time ran out while others waited, since somebody asked.
    pub(super) lapsed: Vec<Lapse>,
    /// Locks whose holds have run out, of which others have yet to hear.
    pub(super) expired: Vec<Name>,
    /// Until when nobody comes to hold a lock: holds that are not known here have run out by then.
    pub(super) quarantined_until: Option<Ms>,
    /// When the last tick was.
    pub(super) last_tick: Ms,
    /// Waiters whose answer stands, and whose clients wait for it.
    pub(super) to_reply: Vec<Ticket>,
    /// Those who have come to their end as if they had heard of their grants, and the numbers of
    /// these, until it is known whether their connections have outlived the turn.
    pub(super) unconfirmed: Vec<(Waiter, Fence)>,
}

impl Locks {
    /// No locks yet.
    pub fn new(now: Now, secret: Secret, in_cluster: bool) -> Self {
        let keyed = Keyed::new(secret);
        Self {
            databases: Databases::new(secret),
            waiters: ByTicket::default(),
            waiting: 0,
            places: 0,
            waits: HashMap::with_hasher(keyed),
            waited_for: HashMap::with_hasher(keyed),
            crowds: BTreeSet::new(),
            cuts: BTreeSet::new(),
            last_ticket: 0,
            clock: FencingClock::new(now, in_cluster),
            secret,
            times_up: BTreeSet::new(),
            alarms: BTreeSet::new(),
            no_locks: 0,
            noted: BTreeSet::new(),
            moved_up: Vec::new(),
            joined: VecDeque::new(),
            kept: BTreeMap::new(),
            had_tied_shares: HashSet::new(),
            returns: BTreeSet::new(),
            put_off: None,
            limits: Limits::DEFAULT,
            most_steps: MOST_STEPS,
            counts: Counts::new(),
            waited: Vec::new(),
            lapsed: Vec::new(),
            expired: Vec::new(),
            quarantined_until: None,
            last_tick: 0,
            to_reply: Vec::new(),
            unconfirmed: Vec::new(),
        }
    }

    /// Does it matter to us what happens to this key?
    pub fn concerns(&self, name: NameRef<'_>) -> bool {
        self.databases.get(name.db).is_some_and(|database| {
            database.queues.contain(name.key) || database.ledger.knows(name.key)
        })
    }

    /// Does anybody wait for this lock?
    pub fn is_waited_for(&self, name: NameRef<'_>) -> bool {
        !self.waiters.is_empty()
            && (self.databases.get(name.db))
                .is_some_and(|database| database.queues.contain(name.key))
    }

    /// Something has happened to this key. It is looked at in the next [`tick`](Self::tick).
    pub fn note(&mut self, name: Name) {
        if let Some(queue) = self.queue(name.borrow()) {
            queue.stale = true;
        }
        self.survey_again(name.borrow());
        self.noted.insert(name);
    }

    /// This key is gone, whatever may come in its place: so is the hold that it was. The queue is
    /// seen to in the next [`tick`](Self::tick).
    pub fn gone(&mut self, name: Name, how: Gone) {
        match how {
            Gone::Expired => {
                let holders = self.queue(name.borrow()).map(|queue| &queue.holders);
                if let Some(owner) = holders.and_then(|holders| holders.any().cloned()) {
                    let name = name.clone();
                    self.lapsed.push(Lapse { name, owner });
                }
                let expired = self.forget(name.borrow());
                count(&mut self.counts.expired, expired);
                if expired > 0 {
                    self.expired.push(name.clone());
                }
            }
            Gone::Evicted => {
                let evicted = self.forget(name.borrow());
                count(&mut self.counts.evicted, evicted);
            }
            Gone::Otherwise => {
                self.forget(name.borrow());
            }
        }
        self.note(name);
    }

    /// A database was emptied, or all of them.
    pub fn flushed(&mut self, db: Option<Db>) {
        (self.cuts).retain(|(_, name)| db.is_some_and(|db| db != name.db));
        for (number, database) in self.databases.iter_mut() {
            if db.is_none_or(|db| db == number) {
                database.ledger = Ledger::new(self.secret);
                self.noted.extend(touch_all(number, database));
            }
        }
    }

    /// Two databases have changed places. The clients that wait in them have not.
    pub fn swapped(&mut self, one: Db, other: Db) {
        let ledger_of_one = self.take_ledger(one);
        let ledger_of_other = self.take_ledger(other);
        for (db, ledger) in [(one, ledger_of_other), (other, ledger_of_one)] {
            *self.ledger(db) = ledger;
        }
        self.note_all();
        let change_places = |db: &mut Db| match *db {
            db_now if db_now == one => *db = other,
            db_now if db_now == other => *db = one,
            _ => {}
        };
        // Grants whose news is under way have moved with their keys.
        let unconfirmed = self.unconfirmed.iter_mut().map(|(waiter, _)| waiter);
        for waiter in self.waiters.values_mut().chain(unconfirmed) {
            if matches!(waiter.state, State::Granted(_)) {
                let mut names = waiter.names.to_vec();
                names
                    .iter_mut()
                    .for_each(|name| change_places(&mut name.db));
                waiter.names = names.into();
            }
        }
        self.kept = (std::mem::take(&mut self.kept).into_iter())
            .map(|((mut name, owner), kept)| {
                change_places(&mut name.db);
                ((name, owner), kept)
            })
            .collect();
        let returns = std::mem::take(&mut self.returns);
        self.returns
            .extend(returns.into_iter().map(|(at, mut given_back)| {
                change_places(&mut given_back.name.db);
                (at, given_back)
            }));
        let cuts = std::mem::take(&mut self.cuts);
        self.cuts = (cuts.into_iter())
            .map(|(at, mut name)| {
                change_places(&mut name.db);
                (at, name)
            })
            .collect();
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

    /// These slots have left for another server, with what was held in them.
    pub fn slots_left(&mut self, ranges: &[RangeInclusive<Slot>]) {
        let slots = Slots::of(ranges);
        for (_, database) in self.databases.iter_mut() {
            database.ledger.forget_slots(&slots);
        }
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
        if limits.max_clock_skew != self.limits.max_clock_skew {
            self.clock.set_skew(limits.max_clock_skew, now);
        }
        self.limits = limits;
        if limits.quarantine == 0 && self.quarantined_until.take().is_some() {
            self.note_all();
        }
    }

    /// How many wait, and for how many locks.
    pub fn waiting_now(&self) -> (usize, usize) {
        let queues = (self.databases.iter()).map(|(_, database)| database.queues.len());
        (self.waiting, queues.sum())
    }

    /// What has been done.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How long those have waited who were granted something since this was asked.
    pub fn take_waited(&mut self) -> Vec<Ms> {
        std::mem::take(&mut self.waited)
    }

    /// Holds that ran out while others waited, since this was asked.
    pub fn take_lapsed(&mut self) -> Vec<Lapse> {
        std::mem::take(&mut self.lapsed)
    }

    /// This server has become a replica: somebody else grants now. Whoever still waits is sent away.
    pub fn stepped_down(&mut self) {
        self.flushed(None);
        self.returns.clear();
        self.kept.clear();
        self.had_tied_shares.clear();
        self.send_away_all();
        self.noted.clear();
    }

    /// Whoever still waits is told that nothing comes of it here.
    pub(super) fn send_away_all(&mut self) {
        let owners = self.waits.keys();
        let mut waiting: Vec<Ticket> = owners.flat_map(|owner| self.tickets_of(owner)).collect();
        waiting.sort_unstable();
        for ticket in waiting {
            self.decide(ticket, State::SentAway);
        }
    }

    /// The waiters whose clients are to be replied to now, in the order in which that was decided.
    /// Their clients must be woken; each then asks for its [`answer`](Self::answer).
    pub fn take_to_reply(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.to_reply)
    }

    /// Has every lock with a queue looked at.
    pub fn note_all(&mut self) {
        for (db, database) in self.databases.iter_mut() {
            self.noted.extend(touch_all(db, database));
        }
    }

    /// The queue before this lock, if anybody waits.
    pub(super) fn queue(&mut self, name: NameRef<'_>) -> Option<&mut Queue> {
        if self.waiters.is_empty() {
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

/// The names of all locks with a queue in a database, which will have to be looked at.
fn touch_all(db: Db, database: &mut Database) -> impl Iterator<Item = Name> {
    database.queues.iter_mut().map(move |(key, queue)| {
        queue.stale = true;
        Name {
            db,
            key: Rc::clone(key),
        }
    })
}
