//! What was seen in the last minute.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

/// What each refresh of the last minute has seen.
#[derive(Clone, Debug, Default)]
pub struct Recent(VecDeque<Seen>);

#[derive(Clone, Debug)]
struct Seen {
    at: Instant,
    waiting: u64,
    longest: u64,
}

impl Recent {
    /// How many wait at this moment, and for how many milliseconds the first of them has waited.
    pub fn learn(&mut self, at: Instant, waiting: u64, longest: u64) {
        while self.0.front().is_some_and(|seen| at.saturating_duration_since(seen.at) > MINUTE) {
            self.0.pop_front();
        }
        self.0.push_back(Seen { at, waiting, longest });
    }

    /// The most who waited at once.
    pub fn most(&self) -> Option<u64> {
        self.0.iter().map(|seen| seen.waiting).max()
    }

    /// The longest that a client had waited.
    pub fn longest(&self) -> Option<u64> {
        self.0.iter().map(|seen| seen.longest).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_more_than_a_minute_ago_is_forgotten() {
        let (mut recent, now) = (Recent::default(), Instant::now());
        assert_eq!((recent.most(), recent.longest()), (None, None));
        for (after, waiting, longest) in [(0, 200, 42_000), (10, 9, 70), (61, 3, 80)] {
            recent.learn(now + Duration::from_secs(after), waiting, longest);
        }
        assert_eq!((recent.most(), recent.longest()), (Some(9), Some(80)));
    }
}
