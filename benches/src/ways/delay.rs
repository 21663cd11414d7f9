//! A random delay between tries, as the documentation of the pattern asks for: clients that have
//! begun together do not stay in step.

use crate::runtime::{Sleep, sleep};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

const SHORTEST: Duration = Duration::from_millis(50);
/// In microseconds, beyond the shortest.
const SPREAD: u64 = 100_000;

/// Waits for 50 to 150 ms: 100 ms on average.
#[derive(Debug, Default)]
pub struct Delay {
    chance: RandomState,
    delays: u64,
}

impl Delay {
    /// The next one.
    pub fn pass(&mut self) -> Sleep {
        self.delays += 1;
        let more = self.chance.hash_one(self.delays) % SPREAD;
        sleep(SHORTEST + Duration::from_micros(more))
    }
}
