//! What histories of places got to see.

use std::ops::AddAssign;

use crate::lock::tests::interleavings::soak::Seen;

macro_rules! counts {
    ($($name:ident),* $(,)?) => {
        /// How often things came about that the test is there for.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Counts {
            pub steps: u64,
            $(pub $name: u64,)*
        }

        impl AddAssign for Counts {
            fn add_assign(&mut self, other: Self) {
                self.steps += other.steps;
                $(self.$name += other.$name;)*
            }
        }

        impl Counts {
            /// Something that never came about.
            pub fn rarest(&self) -> Option<&'static str> {
                let all = [$((stringify!($name), self.$name),)*];
                let rare = all.into_iter().find(|&(_, count)| count == 0);
                rare.map(|(name, _)| name)
            }
        }
    };
}

counts! {
    held, places, kept, last_moment, too_late, woken, granted, claimed, unclaimed, another_turn,
    released, released_unclaimed, ended_claimed, other_mode, lapsed, ended, tied, denied, holds,
    holds_some, passed_by, one_waits, no_upgrades, ended_upgrades, full, deadlocks, blocked, granted_blocked, withdrawn, messages, undelivered, steps_of_clock,
}

impl Seen for Counts {
    fn steps(&self) -> u64 {
        self.steps
    }
}
