//! What may be done to a server. A step is plain data and makes sense after any other, so that a
//! history can be replayed, and shortened.

use crate::lock::Ms;
use crate::lock::tests::simulated::{Lock, Owner};

use super::random::Random;

pub const LOCKS: [Lock; 4] = [(0, "a"), (0, "b"), (1, "a"), (1, "b")];
pub const OWNERS: [Owner; 4] = ["ann", "ben", "cid", "dot"];

/// Whose name a command bears.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    Named(Owner),
    /// Whoever holds the lock.
    Holder,
    /// Whoever is first in line.
    First,
}

#[derive(Clone, Copy, Debug)]
pub enum Wait {
    Try,
    For(Ms),
    Forever,
}

/// A point in time that matters.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// The deadline of this lock's hold.
    Deadline(Lock),
    /// When the time of the n-th waiter is up.
    TimeUp(usize),
}

/// The n-th of those who wait stands for whom it may concern; `n` is taken modulo how many there are.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Acquire {
        lock: Lock,
        who: Who,
        ttl: Ms,
        wait: Wait,
        blockable: bool,
    },
    Release {
        lock: Lock,
        who: Who,
    },
    Renew {
        lock: Lock,
        who: Who,
        ttl: Ms,
    },
    Check {
        lock: Lock,
        who: Who,
    },
    Report {
        lock: Lock,
    },
    /// `SET`, with `NX` or without.
    Set {
        lock: Lock,
        who: Who,
        ttl: Option<Ms>,
        only_if_free: bool,
    },
    /// `RPUSH` after `DEL`, and `PEXPIRE`.
    SetNoLock {
        lock: Lock,
        ttl: Option<Ms>,
    },
    Del {
        lock: Lock,
    },
    PExpire {
        lock: Lock,
        ttl: Ms,
    },
    Persist {
        lock: Lock,
    },
    Rename {
        from: Lock,
        to: Lock,
    },
    FlushDb {
        db: usize,
    },
    FlushAll,
    SwapDb,
    ExpireCycle,
    LoopTurn,
    /// Time passes, and the server does what is due on time.
    Pass {
        ms: Ms,
    },
    /// The server is busy, or its clock is set forward: time passes, and it does nothing.
    Lag {
        ms: Ms,
    },
    /// Time passes until so long after this, on time or not.
    PassTo {
        mark: Mark,
        after: Ms,
        lag: bool,
    },
    /// The clock is set back.
    Back {
        ms: Ms,
    },
    Kill {
        n: usize,
    },
    Unblock {
        n: usize,
    },
    UnblockByError {
        n: usize,
    },
    /// Nothing may be written.
    Pause,
    Resume,
    /// This key may not be written.
    Close {
        lock: Lock,
    },
    Open,
    Demote {
        closes: bool,
    },
    Promote,
    Reload,
    Restart,
}

/// Some step; with `rough`, also those that leave little standing.
pub fn any(random: &mut Random, rough: bool) -> Step {
    let lock = if random.one_in(3) {
        random.pick(&LOCKS)
    } else {
        LOCKS[0]
    };
    let who = match random.below(8) {
        0 | 1 => Who::Holder,
        2 => Who::First,
        _ => Who::Named(random.pick(&OWNERS)),
    };
    let ttl = random.between(1, 60);
    let n = random.below(16) as usize;
    match random.below(if rough { 120 } else { 100 }) {
        0..=39 => {
            let wait = match random.below(6) {
                0 => Wait::Try,
                1 | 2 => Wait::Forever,
                _ => Wait::For(random.between(1, 80)),
            };
            let blockable = !random.one_in(30);
            Step::Acquire {
                lock,
                who,
                ttl,
                wait,
                blockable,
            }
        }
        40..=49 => {
            let who = if random.one_in(4) { who } else { Who::Holder };
            Step::Release { lock, who }
        }
        50..=52 => Step::Renew { lock, who, ttl },
        53 | 54 => Step::Check { lock, who },
        55 => Step::Report { lock },
        56..=66 => Step::LoopTurn,
        67..=71 => Step::Pass {
            ms: random.below(20),
        },
        72 => Step::Lag {
            ms: random.below(40),
        },
        73..=78 => Step::PassTo {
            mark: if random.one_in(3) {
                Mark::TimeUp(n)
            } else {
                Mark::Deadline(lock)
            },
            after: random.below(2),
            lag: random.one_in(3),
        },
        79..=84 => Step::Kill { n },
        85 => Step::Unblock { n },
        86 => Step::UnblockByError { n },
        87 => Step::ExpireCycle,
        88 | 89 => Step::Set {
            lock,
            who,
            ttl: Some(ttl),
            only_if_free: true,
        },
        90 => Step::Del { lock },
        91 => Step::PExpire {
            lock,
            ttl: random.below(60),
        },
        92 => Step::Pause,
        93..=95 => Step::Resume,
        96 => Step::Close { lock },
        97 | 98 => Step::Open,
        99 => Step::Persist { lock },
        // The rough ones.
        100..=105 => Step::Set {
            lock,
            who,
            ttl: (!random.one_in(3)).then_some(ttl),
            only_if_free: random.one_in(3),
        },
        106 => Step::SetNoLock {
            lock,
            ttl: (!random.one_in(3)).then_some(ttl),
        },
        107 | 108 => Step::Rename {
            from: lock,
            to: random.pick(&LOCKS),
        },
        109 => Step::FlushDb {
            db: random.below(2) as usize,
        },
        110 => Step::FlushAll,
        111 | 112 => Step::SwapDb,
        113 => Step::Back {
            ms: random.between(1, 100),
        },
        114 => Step::Demote {
            closes: random.one_in(2),
        },
        115..=117 => Step::Promote,
        118 => Step::Reload,
        _ => Step::Restart,
    }
}
