//! What a history got to see.

use std::ops::AddAssign;

use crate::lock::tests::model::Tally;

/// How often things came about that the test is there for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub steps: u64,
    pub granted_at_once: u64,
    pub granted_to_waiters: u64,
    pub timed_out: u64,
    pub sent_away: u64,
    pub unheard: u64,
    pub refused: u64,
    pub rare: Tally,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.granted_at_once += other.granted_at_once;
        self.granted_to_waiters += other.granted_to_waiters;
        self.timed_out += other.timed_out;
        self.sent_away += other.sent_away;
        self.unheard += other.unheard;
        self.refused += other.refused;
        self.rare += other.rare;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.adopted += other.adopted;
        self.joined += other.joined;
        self.upgraded += other.upgraded;
        self.weakened += other.weakened;
        self.closed += other.closed;
        self.several_waited += other.several_waited;
        self.several_granted += other.several_granted;
        self.together += other.together;
        self.limited += other.limited;
        self.deadlocks += other.deadlocks;
        self.broken += other.broken;
        self.upgrades_refused += other.upgrades_refused;
        self.no_deadlock += other.no_deadlock;
    }
}

impl Counts {
    /// Something that happened in less than one of four histories, or of forty or eighty where it is rare.
    pub fn rarest(&self, histories: u64) -> Option<&'static str> {
        let rare = &self.rare;
        [
            ("granted at once", self.granted_at_once),
            ("granted to a waiter", self.granted_to_waiters),
            ("timed out", self.timed_out),
            ("sent away", self.sent_away),
            ("unheard", self.unheard),
            ("refused", self.refused),
            ("held by another's write", rare.adopted * 10),
            ("held by another waiter of the owner", rare.joined),
            ("upgraded", rare.upgraded),
            ("a share again", rare.weakened * 20),
            ("released with its connection", rare.closed),
            ("waits for several", rare.several_waited),
            ("several granted to a waiter", rare.several_granted),
            ("readers granted together", rare.together),
            ("limited", rare.limited),
            ("deadlocks", rare.deadlocks),
            ("broken", rare.broken),
            ("upgrades refused", rare.upgrades_refused * 10),
        ]
        .into_iter()
        .find(|&(_, count)| count < histories / 4)
        .map(|(what, _)| what)
    }
}
