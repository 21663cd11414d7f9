//! What is done where requests wait in places. A step is plain data and makes sense after any other.

use crate::lock::tests::interleavings::random::Random;
use crate::lock::tests::simulated::{Lock, Owner, Request};
use crate::lock::{Ahead, Mode, Ms};

pub use crate::lock::tests::interleavings::steps::OWNERS;
pub const CHANNELS: [&str; 2] = ["one", "two"];
pub const REGULARS: u64 = 3;

/// Which locks a command names, in this order.
pub const WHICH: [&[Lock]; 8] = [
    &[(0, "a")],
    &[(0, "a")],
    &[(0, "b")],
    &[(1, "a")],
    &[(0, "a"), (0, "b")],
    &[(0, "b"), (0, "a")],
    &[(0, "b"), (0, "c")],
    &[(0, "a"), (0, "b"), (0, "c")],
];

/// How a request is made.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub ask: Request,
    pub length: Ms,
    /// On which channel its owner gets a message, if on any.
    pub channel: Option<usize>,
    /// By which connection, if by one that comes back.
    pub by: Option<usize>,
}

/// Whose name a command bears: of the places and of the holds that there are the n-th, modulo their
/// number.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    Named(Owner),
    Place(usize),
    Holder(usize),
}

/// A point in time that matters.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// The end of a place's lease, or of its claim.
    Lease(usize),
    Claim(usize),
    /// The end of a hold.
    Deadline(Lock),
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Ask { owner: Owner, which: usize, mode: Mode, terms: Terms },
    // For the n-th place, perhaps in another mode.
    AskAgain { n: usize, mode: Option<Mode>, terms: Terms },
    // All owners of places retry, as they did.
    AllAskAgain,
    Try { who: Who, which: usize, mode: Mode, terms: Terms },
    Block { who: Who, which: usize, mode: Mode, terms: Terms, ms: Ms },
    Release { who: Who, which: usize },
    Renew { who: Who, which: usize, ttl: Ms },
    Check { who: Who, which: usize },
    Guard { who: Who, which: usize },
    Break { which: usize },
    Del { which: usize },
    // `SET NX`
    Set { owner: Owner, which: usize, ttl: Ms },
    Flush,
    Swap,
    Expire,
    Turn,
    // Time passes, and the server does what is due on time.
    Pass { ms: Ms },
    // Until so long before or after this.
    PassTo { mark: Mark, by: i64 },
    // Time passes, and the server does nothing.
    Lag { ms: Ms },
    // The wall clock is stepped.
    SetClock { by: Ahead },
    LagTo { mark: Mark, by: i64 },
    // A connection of one who waits closes.
    Kill { n: usize },
    Close { regular: usize },
    // The server keeps all back who would ask, or does so no more.
    KeepBack(bool),
    // No client listens on a channel, or a client does.
    Deaf { channel: usize, deaf: bool },
    // A user loses the right to ask, or all have it again.
    Deny(Option<Owner>),
    Pause,
    Forbid { which: usize },
    Permit,
    Demote { closes: bool },
    Promote,
    Restart,
    Drain(bool),
    ClaimTime(Ms),
    MaxWaiters(u64),
}

/// What kind of history it is.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// How much is asked for several locks, and for shared ones: one in so many.
    pub several: u64,
    pub shared: u64,
    /// How many of four places have a channel.
    pub told: u64,
    /// Do servers get into trouble? And do they fail?
    pub troubles: bool,
    pub fails: bool,
    /// Do others write too?
    pub foreign: bool,
    /// Is the wall clock stepped?
    pub clock: bool,
    /// How many owners there are.
    pub owners: usize,
}

impl Kind {
    pub fn any(random: &mut Random, clock: bool) -> Self {
        Self {
            several: random.pick(&[2, 4, 50]),
            shared: random.pick(&[2, 3, 50]),
            told: random.pick(&[0, 2, 4]),
            troubles: random.one_in(3),
            fails: random.one_in(3),
            foreign: random.one_in(2),
            clock,
            owners: random.pick(&[3, 4, 6]),
        }
    }

    fn which(self, random: &mut Random) -> usize {
        let first_several = 4;
        if random.one_in(self.several) {
            random.between(first_several, WHICH.len() as u64 - 1) as usize
        } else {
            random.below(first_several) as usize
        }
    }

    fn mode(self, random: &mut Random) -> Mode {
        if !random.one_in(self.shared) {
            return Mode::Exclusive;
        }
        match random.below(3) {
            0 => Mode::Limit(random.between(1, 2)),
            1 => Mode::Shared,
            _ => Mode::Exclusive,
        }
    }

    fn owner(self, random: &mut Random) -> Owner {
        OWNERS[random.below(self.owners as u64) as usize]
    }

    fn who(self, random: &mut Random) -> Who {
        match random.below(3) {
            0 => Who::Named(self.owner(random)),
            1 => Who::Place(random.below(12) as usize),
            _ => Who::Holder(random.below(12) as usize),
        }
    }

    fn terms(self, random: &mut Random) -> Terms {
        let told = random.below(4) < self.told;
        let ttl = random.pick(&[5, 50, 200, 1000, 4000]);
        let length = random.pick(&[20, 100, 400, 1500, 3000]);
        let channel = told.then(|| random.below(CHANNELS.len() as u64) as usize);
        let by = random.one_in(2).then(|| random.below(REGULARS) as usize);
        let session = random.one_in(5);
        // By these, so that each seed stays the history that it was.
        let max_queue = (ttl == 50).then_some(length % 7);
        let ask = Request { ttl, session, max_queue, ..Request::of(OWNERS[0]) };
        Terms { ask, length, channel, by }
    }
}

/// Some step in a history of this kind.
pub fn any(random: &mut Random, kind: Kind) -> Step {
    let (n, which, terms) = (random.below(12) as usize, kind.which(random), kind.terms(random));
    let by = random.pick(&[-2, -1, -1, 0, 0, 1, 2]);
    let mark = match random.below(4) {
        0 => Mark::Deadline(random.pick(WHICH[which])),
        1 => Mark::Claim(n),
        _ => Mark::Lease(n),
    };
    match random.below(200) {
        0..=34 => Step::Ask { owner: kind.owner(random), which, mode: kind.mode(random), terms },
        35..=74 => Step::AskAgain { n, mode: random.one_in(10).then(|| kind.mode(random)), terms },
        75..=79 => Step::AllAskAgain,
        80..=84 => Step::Try { who: kind.who(random), which, mode: kind.mode(random), terms },
        85..=91 => Step::Block {
            who: kind.who(random),
            which,
            mode: kind.mode(random),
            terms,
            ms: random.pick(&[10, 100, 1000, 5000]),
        },
        92..=106 => Step::Release { who: kind.who(random), which },
        107..=109 => Step::Renew { who: kind.who(random), which, ttl: terms.ask.ttl },
        110..=111 => Step::Check { who: kind.who(random), which },
        112..=113 => Step::Guard { who: kind.who(random), which },
        114..=116 => Step::Kill { n },
        117..=118 => Step::Close { regular: n % REGULARS as usize },
        119..=135 => Step::Pass { ms: random.pick(&[0, 1, 5, 30, 150, 600]) },
        136..=152 => Step::PassTo { mark, by },
        153..=157 => Step::Turn,
        158 => Step::Deaf {
            channel: random.below(CHANNELS.len() as u64) as usize,
            deaf: random.one_in(2),
        },
        159 => Step::Expire,
        160 if random.one_in(3) => Step::ClaimTime(random.pick(&[1, 50, 300, 2000])),
        161 if random.one_in(3) => Step::MaxWaiters(random.pick(&[0, 0, 2, 4])),
        162..=163 => Step::Permit,
        164 => Step::KeepBack(false),
        165..=167 if kind.troubles => Step::KeepBack(random.one_in(2)),
        168 if kind.troubles => Step::Pause,
        169 if kind.troubles => Step::Forbid { which },
        170..=172 if kind.troubles => Step::Lag { ms: random.pick(&[5, 90, 150, 1000]) },
        173..=174 if kind.troubles => Step::LagTo { mark, by: by + random.pick(&[0, 50, 200]) },
        175 if kind.troubles => Step::Deny(Some(kind.owner(random))),
        176 if kind.fails => Step::Demote { closes: random.one_in(2) },
        177..=179 => Step::Promote,
        180 if kind.fails => Step::Restart,
        181 if kind.fails => Step::Drain(true),
        182 => Step::Drain(false),
        183 => Step::Deny(None),
        184..=186 if kind.foreign => Step::Del { which },
        187..=188 if kind.foreign => {
            Step::Set { owner: kind.owner(random), which, ttl: terms.ask.ttl }
        }
        189 if kind.foreign => Step::Break { which },
        190 if kind.foreign && random.one_in(2) => Step::Flush,
        191 if kind.foreign && random.one_in(2) => Step::Swap,
        192..=193 if kind.clock => {
            Step::SetClock { by: [-60_000, -1000, -50, 50, 1000, 60_000][n % 6] }
        }
        _ => Step::Pass { ms: 1 },
    }
}
