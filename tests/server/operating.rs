//! What operators see of the locks, and can do about them.

mod breaking;
mod classes;
mod counters;
mod events;
mod info;
mod memory;
mod scan;
mod starting;

use crate::support::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The counters of `INFO lock`, of which a test says by how much each has risen.
struct Counters {
    client: Client,
    before: BTreeMap<String, i64>,
}

impl Counters {
    #[track_caller]
    fn of(server: &Server) -> Counters {
        let mut client = server.client();
        let before = totals(&mut client);
        Counters { client, before }
    }

    /// Exactly these have risen since the last time, by so many, and no other.
    #[track_caller]
    fn have_risen(&mut self, case: &str, by: &[(&str, i64)]) {
        let expected: BTreeMap<_, _> =
            (by.iter()).map(|&(name, by)| (format!("lock_{name}_total"), by)).collect();
        for name in expected.keys() {
            assert!(self.before.contains_key(name), "no counter {name}");
        }
        let started = Instant::now();
        // What happens outside of commands may be counted a turn of the server's loop later.
        while self.rises() != expected && started.elapsed() < Duration::from_secs(5) {
            cmd!(self.client, "PING");
        }
        // And what was counted once must not be counted again by then.
        for _ in 0..5 {
            assert_eq!(cmd!(self.client, "PING"), "PONG");
            assert_eq!(self.rises(), expected, "{case}");
        }
        self.before = totals(&mut self.client);
    }

    fn rises(&mut self) -> BTreeMap<String, i64> {
        let now = totals(&mut self.client);
        (now.into_iter())
            .map(|(name, value)| (name.clone(), value - self.before[&name]))
            .filter(|&(_, by)| by != 0)
            .collect()
    }
}

fn totals(client: &mut Client) -> BTreeMap<String, i64> {
    let info = client.info("lock");
    (info.into_iter())
        .filter(|(name, _)| name.ends_with("_total"))
        .map(|(name, value)| (name, value.parse().unwrap()))
        .collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}
