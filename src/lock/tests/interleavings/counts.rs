//! What a history got to see.

use std::ops::AddAssign;

/// How often things came about that the test is there for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub steps: u64,
    pub granted_at_once: u64,
    pub granted_to_waiters: u64,
    pub adopted: u64,
    pub joined: u64,
    pub timed_out: u64,
    pub sent_away: u64,
    pub unheard: u64,
    pub refused: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.granted_at_once += other.granted_at_once;
        self.granted_to_waiters += other.granted_to_waiters;
        self.adopted += other.adopted;
        self.joined += other.joined;
        self.timed_out += other.timed_out;
        self.sent_away += other.sent_away;
        self.unheard += other.unheard;
        self.refused += other.refused;
    }
}

impl Counts {
    /// Something that happened in less than one of four histories.
    pub fn rarest(&self, histories: u64) -> Option<&'static str> {
        [
            ("granted at once", self.granted_at_once),
            ("granted to a waiter", self.granted_to_waiters),
            ("held by another's write", self.adopted * 4),
            ("held by another waiter of the owner", self.joined),
            ("timed out", self.timed_out),
            ("sent away", self.sent_away),
            ("unheard", self.unheard),
            ("refused", self.refused),
        ]
        .into_iter()
        .find(|&(_, count)| count < histories / 4)
        .map(|(what, _)| what)
    }
}
