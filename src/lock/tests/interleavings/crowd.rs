//! Crowds: hundreds of owners before a handful of locks, so that more is to be done at once than a turn does.

use crate::lock::Mode;
use crate::lock::tests::simulated::{Answers, Flavour, Request};

use super::counts::Counts;
use super::random::Random;
use super::steps::{CROWD, LOCKS, OWNERS, STEPS_OF_THE_CLOCK, Step, Wait, Which, Who};
use super::{first_seed, from_env, run, soak, tell};

/// How long a history is.
const STEPS: usize = 3000;

/// What one crowd is like.
#[derive(Clone, Copy, Debug)]
struct Kind {
    answers: Answers,
    notes_late: bool,
    /// How many of a hundred want a share, and how many a limited one.
    readers: u64,
    limited: u64,
    /// One in so many wants several locks.
    several: u64,
}

const KINDS: [Kind; 4] = [
    Kind { answers: Answers::Straight, notes_late: false, readers: 0, limited: 0, several: 100 },
    Kind { answers: Answers::Kept, notes_late: false, readers: 30, limited: 30, several: 20 },
    Kind { answers: Answers::Late, notes_late: true, readers: 97, limited: 0, several: 50 },
    Kind { answers: Answers::Late, notes_late: false, readers: 10, limited: 80, several: 10 },
];

impl Kind {
    fn comes(self, random: &mut Random) -> Step {
        let mode = match random.below(100) {
            n if n < self.readers => Mode::Shared,
            n if n < self.readers + self.limited => Mode::Limit(random.between(1, 6)),
            _ => Mode::Exclusive,
        };
        let wait = match random.below(10) {
            0 => Wait::Try,
            1..=3 => Wait::Forever,
            _ => Wait::For(random.between(1, 1000)),
        };
        let which = which(random, self.several);
        let who = Who::Idle(random.below(CROWD as u64) as usize);
        let session = random.one_in(4);
        let ask = ask(random);
        // By the ttl, so that each seed stays the history that it was.
        let mode = match (mode, which) {
            (Mode::Limit(limit), Which::One(_)) if !ask.ttl.is_multiple_of(3) => {
                let per = ask.ttl.is_multiple_of(2).then_some(1 + (ask.ttl / 2 % 3) as u16);
                Mode::Fair { limit: limit as u16, per }
            }
            _ => mode,
        };
        asks(which, who, wait, Request { mode, session, ..ask })
    }

    /// Whatever comes next: mostly somebody more.
    fn next(self, random: &mut Random) -> Vec<Step> {
        let n = random.below(CROWD as u64) as usize;
        let (which, who) = (which(random, self.several), Who::Holder);
        let lock = which.locks()[0];
        let ttl = random.between(1, 400);
        vec![match random.below(1000) {
            0..=539 => self.comes(random),
            540..=659 => Step::Release { which, who },
            660..=689 => Step::Renew { which, who, ttl },
            690..=709 => asks(which, who, Wait::Try, ask(random)),
            // One who shares a lock wants it alone, or one who waits for it wants another.
            710..=739 => asks(which, who, Wait::For(random.between(1, 100)), ask(random)),
            740..=769 => Step::Kill { n },
            770..=789 => Step::Doom { n },
            790..=799 => Step::Unblock { n },
            800..=809 => Step::CloseTied { n },
            810..=811 => return (0..50).map(|at| Step::Kill { n: n * at }).collect(),
            812 => Step::FlushDb { db: random.below(2) as usize },
            813 => Step::Del { lock },
            814 => Step::SetClock { by: random.pick(&STEPS_OF_THE_CLOCK) },
            815..=816 => Step::ExpireCycle,
            // The server is busy: much is due at once.
            817..=818 => Step::Lag { ms: random.between(100, 1000) },
            819..=899 => Step::Pass { ms: random.below(4) },
            _ => Step::LoopTurn,
        }]
    }
}

fn ask(random: &mut Random) -> Request {
    Request { ttl: random.between(1, 400), ..Request::of(OWNERS[0]) }
}

fn asks(which: Which, who: Who, wait: Wait, ask: Request) -> Step {
    Step::Acquire { which, who, wait, blockable: true, by: None, ask }
}

/// Half of them want the same.
fn which(random: &mut Random, several: u64) -> Which {
    let one = if random.one_in(2) { LOCKS[0] } else { random.pick(&LOCKS) };
    let other = random.pick(&LOCKS);
    if random.one_in(several) && one.0 == other.0 && one != other {
        Which::Two(one, other)
    } else {
        Which::One(one)
    }
}

fn history(seed: u64) -> (Flavour, Vec<Step>) {
    let mut random = Random::new(seed);
    let kind = KINDS[(seed % 4) as usize];
    let Kind { answers, notes_late, .. } = kind;
    let flavour = Flavour { answers, notes_late, says_how: true, ..Flavour::default() };
    let mut steps = Vec::new();
    while steps.len() < STEPS {
        steps.extend(kind.next(&mut random));
    }
    (flavour, steps)
}

/// Two of each kind.
const ROUNDS: u64 = 8;

/// What came about too seldom to prove anything.
fn rarest(counts: &Counts) -> Option<&'static str> {
    let rare = &counts.tally;
    [
        ("granted after a wait", counts.granted_to_waiters / 50),
        ("granted at once", counts.granted_at_once / 20),
        ("timed out", counts.timed_out / 50),
        ("deadlocks", rare.deadlocks),
        ("died", counts.killed / 50),
        ("died before they heard of their grant", rare.undelivered),
        ("closed", rare.closed),
        ("expired", counts.expired),
        ("flushed", counts.flushed),
        ("the clock was stepped", counts.steps_back + counts.steps_forward),
        ("limited", rare.limited / 20),
        ("fair", rare.fair / 20),
        ("held together", rare.together / 20),
        ("upgraded", rare.upgraded),
        ("too much for a turn", counts.spent),
        ("many wait", counts.most_waiting / 100),
    ]
    .into_iter()
    .find(|&(_, count)| count < ROUNDS)
    .map(|(what, _)| what)
}

fn tell_of(seed: u64) {
    let (flavour, steps) = history(seed);
    tell(seed, flavour, steps, |steps| run(flavour, steps).err());
}

#[test]
fn a_crowd_is_served_in_order_and_no_client_is_forgotten() {
    if let Some(seed) = from_env("LOCK_SEED") {
        return tell_of(seed);
    }
    let rounds = from_env("LOCK_ROUNDS").unwrap_or(ROUNDS);
    let plan = soak::Plan { first: first_seed(1), rounds, length: None };
    let tried = soak::try_all(plan, |seed| {
        let (flavour, steps) = history(seed);
        run(flavour, &steps).ok()
    });
    let counts = match tried {
        Ok((_, counts)) => counts,
        Err(seed) => return tell_of(seed),
    };
    eprintln!("{rounds} crowds from {} on: {counts:?}", plan.first);
    if rounds >= ROUNDS && plan.first == 1 {
        assert_eq!(rarest(&counts), None, "{counts:?}");
    }
}
