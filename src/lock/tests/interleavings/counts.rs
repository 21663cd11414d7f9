//! What a history got to see.

use crate::lock::tests::model::Tally;
use crate::lock::tests::sums::sums;

sums! {
    /// How often things came about that the test is there for.
    pub struct Counts {
        pub steps: u64,
        pub granted_at_once: u64,
        pub granted_to_waiters: u64,
        pub timed_out: u64,
        pub denied: u64,
        pub sent_away: u64,
        pub refused: u64,
        pub guarded: u64,
        pub killed: u64,
        /// Waiters that were replied, and whose connections closed before they could have heard.
        pub lost: u64,
        pub foreign: u64,
        pub flushed: u64,
        pub swapped: u64,
        pub copied: u64,
        pub evicted: u64,
        pub expired: u64,
        pub steps_back: u64,
        pub steps_forward: u64,
        pub lags: u64,
        pub pauses: u64,
        pub restarts: u64,
        pub failovers: u64,
        /// Restarts and failovers that lost what had been written.
        pub tails_lost: u64,
        pub demotions: u64,
        pub slots_left: u64,
        pub slots_back: u64,
        pub settings: u64,
        pub drained: u64,
        /// Turns in which there was more to do than one does, and how many have waited at most at once.
        pub spent: u64,
        pub most_waiting: u64,
        pub tally: Tally,
    }
}

impl super::soak::Seen for Counts {
    fn steps(&self) -> u64 {
        self.steps
    }
}

impl Counts {
    /// Something that happened in less than one of four histories, or of forty, of a hundred and sixty or of three hundred and twenty where it is rare.
    pub fn rarest(&self, histories: u64) -> Option<&'static str> {
        let rare = &self.tally;
        [
            ("granted at once", self.granted_at_once),
            ("granted to a waiter", self.granted_to_waiters),
            ("timed out", self.timed_out),
            ("denied", self.denied),
            ("sent away", self.sent_away),
            ("undelivered", rare.undelivered),
            ("refused", self.refused),
            ("held by another's write", rare.adopted * 10),
            ("waits taken over", rare.taken_over),
            ("waits taken over in another mode", rare.other_modes),
            ("owners that wait for other locks", rare.one_waits),
            ("owners that have not heard of a grant", rare.not_heard_of * 40),
            ("upgraded", rare.upgraded),
            ("waits that ended as upgrades", rare.ended_upgrades * 10),
            ("released with its connection", rare.closed),
            ("waits for several", rare.several_waited),
            ("several granted to a waiter", rare.several_granted),
            ("readers granted together", rare.together),
            ("limited", rare.limited),
            ("fair", rare.fair),
            ("deadlocks", rare.deadlocks),
            ("broken", rare.broken),
            ("upgrades refused", rare.upgrades_refused),
            ("too many wait", rare.full * 40),
            ("more wait than the request lets", rare.behind),
            ("strings that were given an end", rare.adopted_orphans * 40),
            ("withdrawn", rare.withdrawn),
            ("withdrawn after the grant", rare.withdrawn_late * 10),
            ("guarded", self.guarded),
            ("killed", self.killed),
            ("lost after the answer", self.lost * 10),
            ("foreign writes", self.foreign),
            ("flushed", self.flushed),
            ("swapped", self.swapped),
            ("copied", self.copied),
            ("evicted", self.evicted),
            ("expired", self.expired),
            ("wall clock set back", self.steps_back),
            ("wall clock set forward", self.steps_forward),
            ("outlasted", rare.outlasted),
            ("lags", self.lags),
            ("pauses", self.pauses),
            ("restarts", self.restarts),
            ("failovers", self.failovers),
            ("tails lost", self.tails_lost),
            ("demotions", self.demotions),
            ("slots that left", self.slots_left * 10),
            ("slots that came back", self.slots_back * 10),
            ("settings", self.settings * 10),
            ("drained", self.drained),
        ]
        .into_iter()
        .find(|&(_, count)| count < histories / 4)
        .map(|(what, _)| what)
    }
}
