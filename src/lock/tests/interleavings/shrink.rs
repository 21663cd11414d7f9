//! Makes a history that fails shorter, as long as it still fails.

use std::time::{Duration, Instant};

use super::Failure;

/// How many runs a history is worth, and how long.
const MOST_RUNS: usize = 3000;
const LONGEST: Duration = Duration::from_secs(60);

pub fn shrink<Step: Clone>(
    mut steps: Vec<Step>,
    mut failure: Failure,
    run: impl Fn(&[Step]) -> Option<Failure>,
) -> (Vec<Step>, Failure) {
    // A core that panics would say so at every run.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    steps.truncate(failure.step + 1);
    let began = Instant::now();
    let is_enough = |runs: usize| runs >= MOST_RUNS || began.elapsed() > LONGEST;
    let mut runs = 0;
    let mut size = steps.len().div_ceil(2);
    loop {
        let before = steps.len();
        let mut at = 0;
        while at < steps.len() && !is_enough(runs) {
            runs += 1;
            let mut fewer = steps.clone();
            fewer.drain(at..fewer.len().min(at + size));
            match run(&fewer) {
                Some(found) => {
                    fewer.truncate(found.step + 1);
                    (steps, failure) = (fewer, found);
                }
                None => at += size,
            }
        }
        if is_enough(runs) || (size == 1 && steps.len() == before) {
            break;
        }
        size = size.div_ceil(2);
    }
    std::panic::set_hook(hook);
    (steps, failure)
}
