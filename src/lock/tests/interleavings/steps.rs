//! What may be done to a server. A step is plain data and makes sense after any other, so that a
//! history can be replayed, and shortened.

use std::sync::OnceLock;

use crate::lock::tests::simulated::{Lock, Owner, Request};
use crate::lock::{Ahead, LAST_MS, Limits, Mode, Ms};

use super::random::Random;

pub const LOCKS: [Lock; 6] = [(0, "a"), (0, "b"), (0, "c"), (1, "a"), (1, "b"), (1, "c")];
/// Of two groups.
pub const OWNERS: [Owner; 6] = ["g:ann", "h:ben", "g:cid", "h:dot", "g:eve", "h:fay"];
pub const KEYS: [&str; 3] = ["a", "b", "c"];
pub const CHANNELS: [&str; 2] = ["one", "two"];

/// How many owners a crowd has.
pub const CROWD: usize = 400;

/// The n-th owner of a crowd, modulo their number: their names last as long as the tests.
pub fn one_of_a_crowd(n: usize) -> Owner {
    static ALL: OnceLock<Vec<Owner>> = OnceLock::new();
    let all =
        ALL.get_or_init(|| (0..CROWD).map(|at| &*format!("{}:{at}", at % 7).leak()).collect());
    all[n % CROWD]
}

/// Whose name is it?
pub fn owner_called(name: &[u8]) -> Owner {
    let number = str::from_utf8(name).ok().and_then(|name| name.split(':').nth(1)?.parse().ok());
    let owner = OWNERS.into_iter().find(|owner| owner.as_bytes() == name);
    owner.or(number.map(one_of_a_crowd)).expect("an owner that the test knows")
}

/// By how much the wall clock is stepped.
pub const STEPS_OF_THE_CLOCK: [Ahead; 6] = [-60_000, -1000, -50, 50, 1000, 60_000];

/// How many connections come back to retry. Every other request comes by a new one.
pub const REGULARS: usize = 4;

/// Which locks a command names, in this order; all are of one database.
#[derive(Clone, Copy, Debug)]
pub enum Which {
    One(Lock),
    Two(Lock, Lock),
    Three(Lock, Lock, Lock),
}

impl Which {
    pub fn locks(self) -> Vec<Lock> {
        match self {
            Self::One(one) => vec![one],
            Self::Two(one, two) => vec![one, two],
            Self::Three(one, two, three) => vec![one, two, three],
        }
    }
}

/// Whose name a command bears.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    Named(Owner),
    /// A client that holds the lock.
    Holder,
    /// A client that is first in the queue.
    First,
    /// The owner of the n-th place.
    Place(usize),
    /// The next owner of a crowd from the n-th on who does not wait.
    Idle(usize),
}

#[derive(Clone, Copy, Debug)]
pub enum Wait {
    Try,
    For(Ms),
    Forever,
    /// In a place, whose owner gets messages on this channel.
    Place(Ms, Option<usize>),
}

/// A point in time that matters.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// The deadline of this lock's hold.
    Deadline(Lock),
    /// When the time of the n-th waiter is up.
    TimeUp(usize),
    /// When the lease of the n-th place ends, or its claim.
    Lease(usize),
    Claim(usize),
}

/// The n-th of those who wait stands for whom it may concern; `n` is taken modulo how many there are.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    // By one of the regulars' connections or a new one; the last says what else is asked for.
    Acquire { which: Which, who: Who, wait: Wait, blockable: bool, by: Option<usize>, ask: Request },
    // For the n-th place: all as it is, but the mode perhaps.
    AskAgain { n: usize, mode: Option<Mode>, wait: Wait, by: Option<usize>, ask: Request },
    // For all places, as they were asked for.
    AllAskAgain,
    // No client listens on a channel, or one does.
    Deaf { channel: usize, deaf: bool },
    // A user loses the right to ask, or all have it again.
    Deny(Option<Owner>),
    // The server keeps all back who would ask, or does so no more.
    KeepBack(bool),
    Release { which: Which, who: Who },
    Renew { which: Which, who: Who, ttl: Ms },
    // With `FORCE` or without.
    Break { lock: Lock, force: bool },
    Guard { lock: Lock, who: Who },
    Configure(Setting),
    // The connection of one of the regulars closes.
    Close { regular: usize },
    // That of the n-th hold that ends with one.
    CloseTied { n: usize },
    Check { lock: Lock, who: Who },
    // `SET`, with `NX` or without.
    Set { lock: Lock, who: Who, ttl: Option<Ms>, only_if_free: bool },
    // `RPUSH` after `DEL`, and `PEXPIRE`.
    SetNoLock { lock: Lock, ttl: Option<Ms> },
    // `ZADD`, of an owner, with the marker or without.
    ZAdd { lock: Lock, who: Who, ttl: Option<Ms>, marked: bool },
    // `ZREM`, of an owner or of the marker.
    ZRem { lock: Lock, who: Option<Who> },
    Del { lock: Lock },
    PExpire { lock: Lock, ttl: Ms },
    Persist { lock: Lock },
    Rename { from: Lock, to: Lock },
    // `COPY`, with `REPLACE` or without.
    Copy { from: Lock, to: Lock, over: bool },
    // The server needs the memory.
    Evict { lock: Lock },
    FlushDb { db: usize },
    FlushAll,
    SwapDb,
    ExpireCycle,
    LoopTurn,
    // The user of one who waits loses the right to it.
    Bar { n: usize },
    // Those who were answered come to their end; whether their connections outlive that shows later.
    FallAsleep,
    // Time passes, and the server does what is due on time.
    Pass { ms: Ms },
    // The server is busy: time passes, and it does nothing.
    Lag { ms: Ms },
    // Time passes until so long before or after this, on time or not.
    PassTo { mark: Mark, before: Ms, after: Ms, lag: bool },
    // The wall clock is stepped, forward or back.
    SetClock { by: Ahead },
    Kill { n: usize },
    // The server closes its connection at the end of the turn, whatever it has been told by then.
    Doom { n: usize },
    Unblock { n: usize },
    UnblockByError { n: usize },
    // Nothing may be written.
    Pause,
    Resume,
    // This key may not be written.
    Forbid { lock: Lock },
    Permit,
    Demote { closes: bool },
    Promote,
    Reload,
    // It stops and starts again, and what it wrote in so many of the last moments is lost.
    Restart { lost: usize },
    // Another server takes over, which was so many moments behind, and whose clock differs by so much.
    Failover { lost: usize, by: i64 },
    // The slot of this key leaves for another server.
    Leave { key: &'static str },
    // All slots that left come back, with what is held there. The other server's clock was ahead by so
    // much.
    Return { by: Ms, held: Option<Owner> },
}

/// What an operator may set while the server runs.
#[derive(Clone, Copy, Debug)]
pub enum Setting {
    MaxWaiters(u64),
    MaxWaitersTotal(u64),
    OrphanTtl(Ms),
    Quarantine(Ms),
    FenceLead(Ms),
    Drain(bool),
    ClaimTime(Ms),
}

impl Setting {
    pub fn apply(self, limits: &mut Limits) {
        match self {
            Self::MaxWaiters(most) => limits.max_waiters = most,
            Self::MaxWaitersTotal(most) => limits.max_waiters_total = most,
            Self::OrphanTtl(ttl) => limits.orphan_ttl = ttl,
            Self::Quarantine(length) => limits.quarantine = length,
            Self::FenceLead(lead) => limits.fence_lead = lead,
            Self::Drain(drain) => limits.drain = drain,
            Self::ClaimTime(time) => limits.claim_time = time,
        }
    }

    fn any(random: &mut Random) -> Self {
        match random.below(8) {
            0 => Self::MaxWaiters(random.pick(&[0, 1, 2, 3])),
            1 => Self::MaxWaitersTotal(random.pick(&[0, 3, 5, 8])),
            2 => Self::OrphanTtl(random.pick(&[0, 20, 40])),
            3 | 4 => Self::Quarantine(random.pick(&[0, 10, 50])),
            5 => Self::FenceLead(random.pick(&[1000, 5000, 10_000])),
            _ => Self::Drain(random.one_in(4)),
        }
    }
}

/// What kind of history it is.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Also steps that leave little standing.
    pub rough: bool,
    /// The server sometimes refuses writes.
    pub refuses: bool,
    /// How much is asked for several locks, and for shared ones: one in so many.
    pub several: u64,
    pub shared: u64,
    /// A client changes the settings.
    pub settings: bool,
    /// How many owners there are.
    pub owners: usize,
    /// Is the wall clock stepped?
    pub steps: bool,
}

impl Kind {
    pub fn any(random: &mut Random) -> Self {
        Self {
            rough: random.one_in(2),
            refuses: random.one_in(2),
            several: random.pick(&[2, 3, 20]),
            shared: random.pick(&[1, 2, 2, 20]),
            settings: random.one_in(4),
            owners: random.pick(&[3, 4, 5]),
            steps: random.one_in(2),
        }
    }

    fn which(self, random: &mut Random) -> Which {
        let lock = some_lock(random);
        if !random.one_in(self.several) {
            return Which::One(lock);
        }
        // In any order.
        let (a, b, c) = ("a", "b", "c");
        let orders = [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]];
        let keys = random.pick(&orders);
        let key = |at: usize| (lock.0, keys[at]);
        if random.one_in(4) {
            Which::Three(key(0), key(1), key(2))
        } else {
            Which::Two(key(0), key(1))
        }
    }

    fn mode(self, random: &mut Random) -> Mode {
        if !random.one_in(self.shared) || random.one_in(4) {
            return Mode::Exclusive;
        }
        match random.below(5) {
            0 | 1 => Mode::Limit(random.between(1, 3)),
            _ => Mode::Shared,
        }
    }

    fn acquire(self, random: &mut Random, who: Who, ttl: Ms) -> Step {
        let wait = match random.below(6) {
            0 => Wait::Try,
            1 | 2 => Wait::Forever,
            _ => Wait::For(random.between(1, 80)),
        };
        let (which, mode) = (self.which(random), self.mode(random));
        let blockable = !random.one_in(30);
        let by = random.one_in(2).then(|| random.below(REGULARS as u64) as usize);
        let session = random.one_in(3);
        // By the ttl, so that each seed stays the history that it was.
        let max_queue = ttl.is_multiple_of(4).then_some(ttl / 4 % 4);
        let mode = match (mode, which) {
            (Mode::Limit(limit), Which::One(_)) if !ttl.is_multiple_of(3) => {
                let per = ttl.is_multiple_of(2).then_some(1 + (ttl / 2 % 2) as u16);
                Mode::Fair { limit: limit as u16, per }
            }
            _ => mode,
        };
        let ask = Request { ttl, mode, session, max_queue, ..Request::of(OWNERS[0]) };
        Step::Acquire { which, who, wait, blockable, by, ask }
    }
}

fn some_lock(random: &mut Random) -> Lock {
    match random.below(8) {
        0 => random.pick(&LOCKS),
        1 | 2 => LOCKS[1],
        _ => LOCKS[0],
    }
}

/// Some step in a history of this kind.
pub fn any(random: &mut Random, kind: Kind) -> Step {
    let lock = some_lock(random);
    let named = Who::Named(OWNERS[random.below(kind.owners as u64) as usize]);
    let who = match random.below(10) {
        0 | 1 => Who::Holder,
        2 => Who::First,
        _ => named,
    };
    let ttl = random.between(1, 60);
    let n = random.below(16) as usize;
    if kind.steps && random.one_in(25) {
        return Step::SetClock { by: random.pick(&STEPS_OF_THE_CLOCK) };
    }
    match random.below(if kind.rough { 140 } else { 110 }) {
        0..=39 => kind.acquire(random, who, ttl),
        40..=49 => Step::Release {
            which: kind.which(random),
            who: if random.one_in(4) { who } else { Who::Holder },
        },
        50..=52 => Step::Renew { which: kind.which(random), who, ttl },
        53 => Step::Check { lock, who },
        54 => Step::Break { lock, force: random.one_in(3) },
        55 => Step::Bar { n },
        56..=65 => Step::LoopTurn,
        66 => Step::FallAsleep,
        67..=71 => Step::Pass { ms: random.below(20) },
        72 => Step::Lag { ms: random.below(40) },
        73..=78 => Step::PassTo {
            mark: if random.one_in(3) { Mark::TimeUp(n) } else { Mark::Deadline(lock) },
            before: 0,
            after: random.below(2),
            lag: random.one_in(3),
        },
        79..=82 => Step::Kill { n },
        83 => Step::Doom { n },
        84 => Step::Unblock { n },
        85 => Step::UnblockByError { n },
        86 => Step::ExpireCycle,
        87 | 88 => Step::Set { lock, who, ttl: Some(ttl), only_if_free: true },
        89 => Step::Del { lock },
        90 => Step::PExpire { lock, ttl: random.below(60) },
        91 => Step::Persist { lock },
        92 | 93 => Step::Close { regular: n % REGULARS },
        94 | 95 => Step::Release { which: Which::One(lock), who: Who::Holder },
        96 if kind.refuses => Step::Pause,
        97 if kind.refuses => Step::Forbid { lock },
        98..=100 => Step::Resume,
        101..=102 => Step::Permit,
        103 => Step::ZRem { lock, who: (!random.one_in(8)).then_some(who) },
        104 | 105 => Step::Guard { lock, who },
        106 | 107 if kind.settings => Step::Configure(Setting::any(random)),
        108 => Step::Copy { from: lock, to: random.pick(&LOCKS), over: random.one_in(2) },
        109 => Step::Evict { lock },
        96..=109 => Step::Check { lock, who: named },
        // The rough ones.
        110 => Step::Set {
            lock,
            who,
            ttl: (!random.one_in(3)).then_some(ttl),
            only_if_free: random.one_in(3),
        },
        111..=114 => Step::ZAdd {
            lock,
            who,
            // A score that is no point in time is as good as none.
            ttl: (!random.one_in(3)).then_some(if random.one_in(8) { LAST_MS } else { ttl }),
            marked: !random.one_in(6),
        },
        115 => Step::SetNoLock { lock, ttl: (!random.one_in(3)).then_some(ttl) },
        116 | 117 => Step::Rename { from: lock, to: random.pick(&LOCKS) },
        118 => Step::FlushDb { db: random.below(2) as usize },
        119 => Step::FlushAll,
        120 | 121 => Step::SwapDb,
        122 | 123 => Step::Demote { closes: random.one_in(2) },
        124..=126 => Step::Promote,
        127 => Step::Reload,
        129 => Step::Lag { ms: random.between(100, 6000) },
        130 | 131 => Step::Failover {
            lost: random.below(6) as usize,
            by: random.between(0, 10_000).cast_signed() - 5000,
        },
        132..=134 => Step::Leave { key: random.pick(&KEYS) },
        135..=138 => Step::Return {
            by: random.pick(&[0, 1, 100, 4999]),
            held: random.one_in(3).then(|| OWNERS[n % 5]),
        },
        128 => Step::ZRem { lock, who: Some(Who::Holder) },
        _ => Step::Restart { lost: if random.one_in(2) { random.below(6) as usize } else { 0 } },
    }
}
