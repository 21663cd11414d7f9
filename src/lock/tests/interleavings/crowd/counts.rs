//! What a crowd got to see.

use super::{Kind, STEPS};

/// How often things came about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub at_once: u64,
    pub after_wait: u64,
    pub timed_out: u64,
    pub busy: u64,
    pub deadlocks: u64,
    pub upgrades: u64,
    pub retries: u64,
    pub released: u64,
    pub renewed: u64,
    pub died_in_queue: u64,
    pub died_granted: u64,
    pub unblocked: u64,
    pub closed: u64,
    pub expired: u64,
    pub flushed: u64,
    pub deleted: u64,
    pub stepped: u64,
    pub limited: u64,
    pub together: u64,
    pub most_waiting: usize,
    pub longest_queue: usize,
}

/// Some of a thousand steps at least, in a history in which it may come about.
const NOT_RARE: u64 = STEPS / 1000;

impl Counts {
    /// What came about too seldom to prove anything.
    pub fn rarest(&self, kind: Kind) -> Option<&'static str> {
        let shares = kind.readers + kind.limited > 0;
        let if_shared = |count: u64| if shares { count } else { u64::MAX };
        [
            ("granted after a wait", self.after_wait / 50),
            ("granted at once", self.at_once * 8),
            ("timed out", self.timed_out / 20),
            ("turned away", self.busy / 10),
            ("deadlocks", self.deadlocks),
            ("upgrades", if_shared(self.upgrades)),
            ("asked again", self.retries),
            ("released", self.released / 50),
            ("renewed", self.renewed),
            ("died in the queue", self.died_in_queue / 20),
            ("died before they heard of their grant", self.died_granted * 4),
            ("unblocked", self.unblocked),
            ("closed", self.closed * 4),
            ("expired", self.expired),
            ("flushed", self.flushed * 20),
            ("deleted", self.deleted * 4),
            ("the clock was stepped", self.stepped * 20),
            ("limited", if_shared(self.limited / 10)),
            ("held together", if_shared(self.together / 10)),
            ("many wait", self.most_waiting as u64 / 50),
            ("many wait for one lock", self.longest_queue as u64 / 50),
        ]
        .into_iter()
        .find(|&(_, count)| count < NOT_RARE)
        .map(|(what, _)| what)
    }
}
