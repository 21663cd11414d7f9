//! Tries one history after another, on every core of the machine, until enough of them have been tried.

use std::ops::AddAssign;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What histories got to see.
pub trait Seen: Default + AddAssign + Send {
    fn steps(&self) -> u64;
}

/// Which histories are to be tried.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub first: u64,
    pub rounds: u64,
    /// For how long, if not until all are through.
    pub length: Option<Duration>,
}

/// How often a long run says how far it has come.
const EVERY: Duration = Duration::from_secs(10);

/// A seed that was most likely never tried before.
pub fn seed_of_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs()) << 20
}

/// What has been tried so far.
struct Tried<Counts> {
    rounds: u64,
    counts: Counts,
    /// The first of those that failed.
    failed: Option<u64>,
    told: Instant,
}

/// How many histories were tried, and what they got to see; or a seed that fails.
pub fn try_all<Counts: Seen>(
    plan: Plan,
    run: impl Fn(u64) -> Option<Counts> + Sync,
) -> Result<(u64, Counts), u64> {
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let tried =
        Mutex::new(Tried { rounds: 0, counts: Counts::default(), failed: None, told: began });
    let work = || {
        loop {
            let round = next.fetch_add(1, Ordering::Relaxed);
            let over = plan.length.is_some_and(|length| began.elapsed() >= length);
            if over || round >= plan.rounds || tried.lock().expect("no panic").failed.is_some() {
                return;
            }
            let seed = plan.first.wrapping_add(round);
            let counts = run(seed);
            let mut tried = tried.lock().expect("no panic");
            match counts {
                Some(counts) => {
                    tried.rounds += 1;
                    tried.counts += counts;
                }
                None => tried.failed = Some(tried.failed.map_or(seed, |other| other.min(seed))),
            }
            if plan.length.is_some() && tried.told.elapsed() >= EVERY {
                tried.told = Instant::now();
                eprintln!(
                    "{} s: {} histories from {} on, {} steps",
                    began.elapsed().as_secs(),
                    tried.rounds,
                    plan.first,
                    tried.counts.steps()
                );
            }
        }
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..workers).for_each(|_| _ = scope.spawn(work)));
    let tried = tried.into_inner().expect("no panic");
    match tried.failed {
        Some(seed) => Err(seed),
        None => Ok((tried.rounds, tried.counts)),
    }
}
