//! The wall clock of a server that has one of its own, and steps of it. Its monotonic clock goes on as the
//! machine's, which is also the test's own [`std::time::Instant`].

use super::command::cmd;
use super::program;
use super::server::Server;
use super::wait::eventually;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// By how many nanoseconds the server's wall clock is ahead of the machine's.
const FILE: &str = "clock";

/// With this a server has the clock that stands in its folder; one that is started again goes on with it.
pub fn environment(dir: &Path) -> Vec<(&'static str, PathBuf)> {
    let file = dir.join(FILE);
    if !file.exists() {
        fs::write(&file, 0_i64.to_ne_bytes()).unwrap();
    }
    vec![("LD_PRELOAD", program::stepped_clock()), ("LOCK_CLOCK", file)]
}

impl Server {
    /// Sets the server's wall clock forward by so many milliseconds, or back, from one instant to the next,
    /// and returns when the server goes by it: Valkey 9.1 reads its clock once in a millisecond.
    /// For a server that was started [`with_steps`](super::Setup::with_steps).
    #[track_caller]
    pub fn step_clock(&self, ms: i64) {
        self.step_clock_unseen(ms);
        let mut client = self.client();
        eventually("the server goes by its new time", || {
            let before = self.wall_clock();
            let time = cmd!(client, "TIME");
            let [seconds, micros] = [0, 1].map(|part| time[part].text().parse::<i64>().unwrap());
            (before - 2..=self.wall_clock() + 2).contains(&(seconds * 1000 + micros / 1000))
        });
    }

    /// The same, and does not ask the server, which may be busy or have many steps to come.
    #[track_caller]
    pub fn step_clock_unseen(&self, ms: i64) {
        let ahead = self.clock_is_ahead_by() + ms * 1_000_000;
        let file = File::options().write(true).open(self.file(FILE)).unwrap();
        // In one piece: the server reads it at any time.
        file.write_all_at(&ahead.to_ne_bytes(), 0).unwrap();
    }

    /// Unix time in milliseconds by the server's wall clock.
    #[track_caller]
    pub fn wall_clock(&self) -> i64 {
        let machines = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        i64::try_from(machines.as_millis()).unwrap() + self.clock_is_ahead_by() / 1_000_000
    }

    #[track_caller]
    fn clock_is_ahead_by(&self) -> i64 {
        let bytes = fs::read(self.file(FILE)).expect("a server that was started with_steps()");
        i64::from_ne_bytes(bytes.try_into().unwrap())
    }
}
