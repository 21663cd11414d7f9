//! The server around the keys: its clock, and its clients from their block to their end.

mod asking;
mod clients;
mod commands;
mod fate;
mod others;
mod turns;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use crate::lock::deadlock::steps::Steps;
use crate::lock::fence::Fence;
use crate::lock::waiting::waits::waiter::State;
use crate::lock::{
    self, Acquired, Ahead, AskedBy, Db, End, HolderNow, Lease, Left, Limits, Locks, LogEntry, Mode,
    Ms, Name, NameRef, NotALock, Notify, Now, Patience, Reason, Refusal, Report, Terms, Ticket,
    Turn, USUALLY_NAMED, WaitOutcome,
};

pub use asking::{Request, place, told_on};

use super::{
    Authority, Content, Key, Keys, Lock, Owner, SECRET, START, SimulatedKeys, Write, name, replay,
};

/// When a server asks what to tell a client that was woken, and what becomes of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// At once, and the client has it (Redis before 7.4).
    #[default]
    Straight,
    /// At once, and it is dropped if something else ends the wait in the same turn (Valkey 8).
    Kept,
    /// A loop turn later (Redis 7.4).
    Late,
}

/// How one server differs from another.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flavour {
    pub answers: Answers,
    /// The core hears of a change to a key a loop turn later (Redis 7.0), not at its end.
    pub notes_late: bool,
    /// It says at once that a key has gone, and how.
    pub says_how: bool,
    /// Expired keys stay until the server comes to remove them by itself.
    pub keeps_expired: bool,
    /// Belongs to a cluster.
    pub in_cluster: bool,
    /// How many may share a lock, if not as many as usual.
    pub max_sharers: Option<u64>,
}

fn new_locks(now: Now, flavour: Flavour) -> Locks {
    let mut locks = Locks::new(now, SECRET, flavour.in_cluster);
    // The steady clock stands still while much is asked for: searches have time enough.
    locks.searches = Steps::of(1 << 20);
    if let Some(max_sharers) = flavour.max_sharers {
        let limits = Limits { max_sharers, ..Limits::DEFAULT };
        locks.set_limits(limits, now);
    }
    locks
}

/// What came of the last thing that was done.
#[derive(Debug, Default)]
pub struct Happened {
    /// Waiters whose answer was decided, in order.
    pub decided: Vec<(Ticket, State)>,
    /// Those whose waits another request has taken over, or was asked for instead of.
    pub replaced: Vec<Ticket>,
    /// Waiters that have come to their end, and whether their clients were told of a grant.
    pub ended: Vec<(Ticket, bool)>,
    /// How many of them seemed to have been told, and were not.
    pub lost: u64,
    /// Connections that have closed.
    pub closed: Vec<u64>,
    pub writes: Vec<Write>,
    pub expired: Vec<Lock>,
    /// Keys of which the server has said so at once.
    pub gone: Vec<Lock>,
    pub offences: Vec<String>,
    /// Was there more to do than one turn does?
    pub is_spent: bool,
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Granted(Vec<u8>, Fence),
    TimedOut,
    NoReplicas,
    Denied,
    SentAway,
    NoUpgrade,
    Replaced,
}

impl From<WaitOutcome<'_>> for Reply {
    fn from(answer: WaitOutcome<'_>) -> Self {
        match answer {
            WaitOutcome::Granted { owner, fence } => Self::Granted(owner.to_vec(), fence),
            WaitOutcome::TimedOut => Self::TimedOut,
            WaitOutcome::NoReplicas(_) => Self::NoReplicas,
            WaitOutcome::Denied(_) => Self::Denied,
            WaitOutcome::SentAway => Self::SentAway,
            WaitOutcome::NoUpgrade => Self::NoUpgrade,
            WaitOutcome::Replaced => Self::Replaced,
        }
    }
}

/// A client that waits.
#[derive(Debug)]
struct Blocked {
    client: u64,
    answer: Option<Reply>,
}

#[derive(Debug)]
pub struct Server {
    pub locks: Locks,
    pub keys: SimulatedKeys,
    /// The keys of a server that knows no more than our log of writes.
    pub replica: Keys,
    /// The same, without the last of it.
    behind: Keys,
    /// That last part, as it came: all writes of one moment together.
    tail: VecDeque<Vec<Write>>,
    pub master: bool,
    /// What clients were told, if they lived to hear it.
    pub replies: BTreeMap<Ticket, Reply>,
    flavour: Flavour,
    micros: u64,
    blocked: BTreeMap<Ticket, Blocked>,
    /// Those of them who were woken.
    woken: BTreeSet<Ticket>,
    /// Connections that the server closes at the end of the turn, in spite of an answer.
    doomed: BTreeSet<u64>,
    /// Those who have ended in this turn as if they had been told, and what that was.
    ending: Vec<(Ticket, Blocked)>,
    /// Connections that closed in this turn.
    lost: BTreeSet<u64>,
    touched: Vec<Name>,
    /// How many writes have been taken out of the log.
    logged: usize,
    happened: Happened,
    /// How many holds were lost, when that was last counted.
    lost_holds: u64,
    clients: u64,
    /// What has been published: where, and what.
    pub published: Vec<(String, String)>,
    /// Channels on which no client listens.
    pub deaf: BTreeSet<String>,
}

/// How many moments a replica may be behind.
const LONGEST_TAIL: usize = 16;

impl Server {
    pub fn new(flavour: Flavour, known: &[Lock]) -> Self {
        let now = Now::from_micros(START * 1000);
        let mut keys = SimulatedKeys::new(now, known);
        keys.removes_expired = !flavour.keeps_expired;
        Self {
            locks: new_locks(now, flavour),
            keys,
            replica: Keys::new(),
            behind: Keys::new(),
            tail: VecDeque::new(),
            master: true,
            replies: BTreeMap::new(),
            flavour,
            micros: now.micros(),
            blocked: BTreeMap::new(),
            woken: BTreeSet::new(),
            doomed: BTreeSet::new(),
            ending: Vec::new(),
            lost: BTreeSet::new(),
            touched: Vec::new(),
            logged: 0,
            happened: Happened::default(),
            lost_holds: 0,
            clients: 0,
            published: Vec::new(),
            deaf: BTreeSet::new(),
        }
    }

    pub fn now(&self) -> Now {
        Now::from_micros(self.micros)
    }

    /// Steps the wall clock, by which keys expire.
    pub fn step(&mut self, by: Ahead) {
        self.keys.ahead += by;
        self.locks.set_wall_clock(self.keys.ahead);
    }

    /// Sets the steady clock, and the wall clock with it.
    pub fn set_clock(&mut self, now: Ms) {
        self.micros = now * 1000;
        self.keys.now = self.now();
    }

    /// A hold is counted once as it is granted, and once as it ends.
    fn add_up(&mut self) {
        let (held, lost) = self.locks.held_and_lost();
        let counts = self.locks.counts();
        let sum = counts.ended() + held + lost;
        if sum != counts.acquired || lost < self.lost_holds {
            let (now, before) = (format!("{counts:?}"), self.lost_holds);
            self.offence(&format!(
                "{held} held, {lost} lost, {before} before, do not add up: {now}"
            ));
        }
        self.lost_holds = lost;
    }

    /// What has happened since this was asked.
    pub fn happened(&mut self) -> Happened {
        self.add_up();
        let mut happened = std::mem::take(&mut self.happened);
        happened.writes = std::mem::take(&mut self.keys.log);
        self.logged += happened.writes.len();
        self.keys.removed_at = None;
        happened.offences.append(&mut std::mem::take(&mut self.keys.offences));
        for write in &happened.writes {
            replay(&mut self.replica, write);
        }
        if !happened.writes.is_empty() {
            self.tail.push_back(happened.writes.clone());
        }
        while self.tail.len() > LONGEST_TAIL {
            let first = self.tail.pop_front().into_iter().flatten();
            first.for_each(|write| replay(&mut self.behind, &write));
        }
        happened
    }

    // To compare two of them.

    /// Connections have larger numbers than this from now on.
    pub fn connect_after(&mut self, client: u64) {
        self.clients = client;
    }

    /// Clients on their way to a reply or to their end, and what the core has not been told yet.
    pub fn under_way(&self) -> impl fmt::Debug {
        (
            (&self.blocked, &self.woken, &self.doomed),
            (&self.ending, &self.lost, &self.touched),
            (self.master, &self.deaf),
        )
    }

    /// Would a turn of the event loop see to any client?
    pub fn has_clients_to_see_to(&self) -> bool {
        !(self.woken.is_empty() && self.ending.is_empty() && self.doomed.is_empty())
    }

    /// Replicas have heard of all that was written.
    pub fn is_replicated(&mut self) {
        let writes = std::mem::take(&mut self.tail);
        (writes.iter().flatten()).for_each(|write| replay(&mut self.behind, write));
    }

    /// The keys as a replica has them that has not heard of the last moment.
    pub fn keys_behind(&self) -> Keys {
        let mut keys = self.behind.clone();
        let heard = self.tail.len().saturating_sub(1);
        let writes = self.tail.iter().take(heard).flatten();
        writes.for_each(|write| replay(&mut keys, write));
        keys
    }

    fn command<T>(
        &mut self,
        authority: Authority,
        named: &[Lock],
        work: impl FnOnce(&mut Locks, &mut Turn<'_>) -> T,
    ) -> T {
        self.keys.authority = authority;
        self.keys.named = named.to_vec();
        self.keys.removed_at = None;
        let now = self.now();
        let mut turn = Turn::new(&mut self.keys, now);
        let outcome = work(&mut self.locks, &mut turn);
        let is_over = turn.settling.is_empty();
        self.happened.is_spent |= turn.budget.is_spent();
        self.has_settled(is_over);
        self.keys.authority = Authority::Ourselves;
        outcome
    }

    fn has_settled(&mut self, is_over: bool) {
        // Where no client waits, none moves up.
        if !is_over && !self.locks.waiting.queues.is_empty() {
            self.offence("a lock was left half settled");
        }
    }

    /// What a turn begins with, and what one ends with in which a grant has begun to wait for replicas.
    fn hear_replicas(&mut self) {
        if !self.locks.waiting.pending.is_empty() {
            let (sent, acknowledged) = (self.sent(), self.keys.acknowledged.clone());
            self.locks.waiting.pending.heard(sent, acknowledged);
        }
    }

    fn after_a_command(&mut self) {
        if self.locks.waiting.pending.has_unsent() {
            self.hear_replicas();
        }
        self.hear_of_expired();
        self.answer();
    }

    fn event(&mut self, lock: Lock) {
        if self.locks.concerns(name(lock)) {
            self.touched.push(name(lock).keep());
        }
    }

    fn hear_of_expired(&mut self) {
        for lock in std::mem::take(&mut self.keys.expired) {
            self.event(lock);
            self.happened.expired.push(lock);
        }
    }

    fn offence(&mut self, what: &str) {
        self.happened.offences.push(what.to_owned());
    }

    /// The waiters of a lock, in order.
    pub fn queue(&self, lock: Lock) -> Vec<Ticket> {
        let db: Db = lock.0;
        self.locks
            .waiting
            .queues
            .get(NameRef::new(db, lock.1.as_bytes(), SECRET))
            .map(|queue| {
                queue.iter().filter(|&ticket| self.locks.waiting.waits.is_waiting(ticket)).collect()
            })
            .unwrap_or_default()
    }
}
