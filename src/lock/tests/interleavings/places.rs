//! Histories of those who wait in places, beside others who block: what was asked for in time is not lost or overtaken
//! while it is awake, nothing outlasts its lease, and no client loses by a claim what it was told that it holds.

use crate::lock::Mode;
use crate::lock::tests::simulated::{Answers, Flavour, Lock, Owner, Request};

use super::counts::Counts;
use super::random::Random;
use super::soak::{self, Plan};
use super::steps::{
    CHANNELS, Mark, OWNERS, REGULARS, STEPS_OF_THE_CLOCK, Setting, Step, Wait, Which, Who,
};
use super::{first_seed, from_env, run, tell};

const STEPS: usize = 300;
const ROUNDS: u64 = 500;

const A: Lock = (0, "a");
const B: Lock = (0, "b");
const C: Lock = (0, "c");

const ONE: [Lock; 4] = [A, A, B, (1, "a")];
const SEVERAL: [Which; 4] =
    [Which::Two(A, B), Which::Two(B, A), Which::Two(B, C), Which::Three(A, B, C)];

/// What kind of history it is.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// How much is asked for several locks, and for shared ones: one in so many.
    several: u64,
    shared: u64,
    /// How many of four places have a channel.
    told: u64,
    /// Do servers get into trouble? And do they fail?
    troubles: bool,
    fails: bool,
    /// Do others write too?
    foreign: bool,
    /// Is the wall clock stepped?
    clock: bool,
    /// How many owners there are.
    owners: usize,
    /// Do owners retry to the end?
    asks_on: bool,
}

/// How a request is made.
struct Terms {
    ask: Request,
    wait: Wait,
    by: Option<usize>,
}

impl Kind {
    fn any(random: &mut Random, clock: bool) -> Self {
        Self {
            several: random.pick(&[2, 4, 50]),
            shared: random.pick(&[2, 3, 50]),
            told: random.pick(&[0, 2, 4]),
            troubles: random.one_in(3),
            fails: random.one_in(3),
            foreign: random.one_in(2),
            clock,
            owners: random.pick(&[3, 4, 6]),
            asks_on: random.one_in(2),
        }
    }

    fn which(self, random: &mut Random) -> Which {
        if random.one_in(self.several) {
            random.pick(&SEVERAL)
        } else {
            Which::One(random.pick(&ONE))
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
            _ => Who::Holder,
        }
    }

    fn terms(self, random: &mut Random) -> Terms {
        let told = random.below(4) < self.told;
        let ttl = random.pick(&[5, 50, 200, 1000, 4000]);
        let length = random.pick(&[20, 100, 400, 1500, 3000]);
        let channel = told.then(|| random.below(CHANNELS.len() as u64) as usize);
        let by = random.one_in(2).then(|| random.below(REGULARS as u64) as usize);
        let session = random.one_in(3);
        let max_queue = random.one_in(5).then(|| random.below(5));
        let mode = self.mode(random);
        let ask = Request { ttl, session, max_queue, mode, ..Request::of(OWNERS[0]) };
        Terms { ask, wait: Wait::Place(length, channel), by }
    }

    /// Whatever comes next.
    fn next(self, random: &mut Random) -> Step {
        let (n, which, terms) = (random.below(12) as usize, self.which(random), self.terms(random));
        let lock = which.locks()[0];
        let Terms { ask, wait, by } = terms;
        let acquires = |who: Who, wait: Wait| {
            let blockable = true;
            Step::Acquire { which, who, wait, blockable, by, ask }
        };
        let mark = match random.below(4) {
            0 => Mark::Deadline(lock),
            1 => Mark::Claim(n),
            _ => Mark::Lease(n),
        };
        let late = random.pick(&[0, 50, 200]);
        let passes = |lag: bool, random: &mut Random| {
            let before = random.below(3);
            let after = random.below(3) + if lag { late } else { 0 };
            Step::PassTo { mark, before, after, lag }
        };
        match random.below(200) {
            0..=34 => acquires(Who::Named(self.owner(random)), wait),
            35..=74 => {
                let mode = random.one_in(10).then_some(ask.mode);
                Step::AskAgain { n, mode, wait, by, ask }
            }
            75..=79 => Step::AllAskAgain,
            80..=84 => acquires(self.who(random), Wait::Try),
            85..=91 => acquires(self.who(random), Wait::For(random.pick(&[10, 100, 1000, 5000]))),
            92..=106 => Step::Release { which, who: self.who(random) },
            107..=109 => Step::Renew { which, who: self.who(random), ttl: ask.ttl },
            110..=111 => Step::Check { lock, who: self.who(random) },
            112..=113 => Step::Guard { lock, who: self.who(random) },
            114..=116 => Step::Kill { n },
            117..=119 => Step::Close { regular: n % REGULARS },
            120..=135 => Step::Pass { ms: random.pick(&[0, 1, 5, 30, 150, 600]) },
            136..=152 => passes(false, random),
            153..=157 => Step::LoopTurn,
            158 => Step::Deaf { channel: n % CHANNELS.len(), deaf: random.one_in(2) },
            159 => Step::ExpireCycle,
            160 if random.one_in(3) => {
                Step::Configure(Setting::ClaimTime(random.pick(&[1, 50, 300, 2000])))
            }
            161 if random.one_in(3) => {
                Step::Configure(Setting::MaxWaiters(random.pick(&[0, 0, 2, 4])))
            }
            162 => Step::Permit,
            163 => Step::Resume,
            164 => Step::KeepBack(false),
            165..=167 if self.troubles => Step::KeepBack(random.one_in(2)),
            168 if self.troubles => Step::Pause,
            169 if self.troubles => Step::Forbid { lock },
            170..=172 if self.troubles => Step::Lag { ms: random.pick(&[5, 90, 150, 1000]) },
            173..=174 if self.troubles => passes(true, random),
            175 if self.troubles => Step::Deny(Some(self.owner(random))),
            176 if self.fails => Step::Demote { closes: random.one_in(2) },
            177..=179 => Step::Promote,
            180 if self.fails => Step::Restart { lost: 0 },
            181 if self.fails => Step::Configure(Setting::Drain(true)),
            182 => Step::Configure(Setting::Drain(false)),
            183 => Step::Deny(None),
            184..=186 if self.foreign => Step::Del { lock },
            187..=188 if self.foreign => Step::Set {
                lock,
                who: Who::Named(self.owner(random)),
                ttl: Some(ask.ttl),
                only_if_free: true,
            },
            189 if self.foreign => Step::Break { lock, force: true },
            190 if self.foreign && random.one_in(2) => Step::FlushAll,
            191 if self.foreign && random.one_in(2) => Step::SwapDb,
            192..=193 if self.clock => Step::SetClock { by: random.pick(&STEPS_OF_THE_CLOCK) },
            _ => Step::Pass { ms: 1 },
        }
    }
}

fn history(seed: u64) -> (Flavour, Vec<Step>) {
    let mut random = Random::new(seed);
    let flavour = Flavour {
        answers: random.pick(&[Answers::Straight, Answers::Kept, Answers::Late]),
        notes_late: random.one_in(2),
        keeps_expired: random.one_in(2),
        says_how: random.one_in(2),
        in_cluster: false,
        max_sharers: None,
    };
    let kind = Kind::any(&mut random, seed % 2 == 1);
    let mut steps: Vec<Step> = (0..STEPS).map(|_| kind.next(&mut random)).collect();
    if kind.asks_on {
        let calm =
            [Step::Promote, Step::Resume, Step::Permit, Step::Deny(None), Step::KeepBack(false)];
        steps.extend(calm);
        steps.extend((0..40).flat_map(|_| [Step::AllAskAgain, Step::Pass { ms: 100 }]));
    }
    (flavour, steps)
}

/// Something that never came about.
fn rarest(counts: &Counts) -> Option<&'static str> {
    let rare = &counts.tally;
    [
        ("granted at once", counts.granted_at_once),
        ("granted to a blocked client", counts.granted_to_waiters),
        ("places", rare.places),
        ("asked for once more", rare.kept),
        ("woken", rare.woken),
        ("turns", rare.turns),
        ("other turns", rare.other_turns),
        ("claimed", rare.claimed),
        ("unclaimed", rare.unclaimed),
        ("released", rare.places_released),
        ("lapsed", rare.places_lapsed),
        ("ended", rare.places_ended),
        ("closed", rare.places_closed),
        ("denied", rare.places_denied),
        ("over, because their owners go on otherwise", rare.gone_on),
        ("hold some", rare.holds_some),
        ("other modes", rare.other_modes),
        ("taken over", rare.taken_over),
        ("one wait", rare.one_waits),
        ("not heard of", rare.not_heard_of),
        ("no upgrades", rare.upgrades_refused),
        ("waits that ended as upgrades", rare.ended_upgrades),
        ("full", rare.full + rare.behind),
        ("deadlocks", rare.deadlocks),
        ("withdrawn", rare.withdrawn),
        ("messages", rare.messages),
        ("messages that no client received", rare.unheard),
        ("steps of the clock", counts.steps_back + counts.steps_forward),
    ]
    .into_iter()
    .find(|&(_, count)| count == 0)
    .map(|(what, _)| what)
}

fn tell_of(seed: u64) {
    let (flavour, steps) = history(seed);
    tell(seed, flavour, steps, |steps| run(flavour, steps).err());
}

#[test]
fn no_place_that_is_asked_for_is_lost_and_none_is_kept_that_is_not() {
    if let Some(seed) = from_env("LOCK_SEED") {
        return tell_of(seed);
    }
    let plan = Plan {
        first: first_seed(0),
        rounds: from_env("LOCK_ROUNDS").unwrap_or(ROUNDS),
        length: None,
    };
    let (rounds, counts) = match soak::try_all(plan, |seed| {
        let (flavour, steps) = history(seed);
        run(flavour, &steps).ok()
    }) {
        Ok(tried) => tried,
        Err(seed) => return tell_of(seed),
    };
    eprintln!("{rounds} histories of places from {} on: {counts:?}", plan.first);
    if rounds >= ROUNDS {
        assert_eq!(rarest(&counts), None, "{counts:?}");
    }
}
