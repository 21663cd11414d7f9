//! What the tests do with shared locks again and again.

use super::client::Client;
use super::command::{Arg, args, cmd};
use super::locks::LONG;
use super::server::Server;
use super::value::Value;
use std::collections::BTreeMap;

/// The member that tells a shared lock from any other sorted set.
pub const MARKER: &str = "@lock:shared";

impl Client {
    /// Acquires a share that must be there to be had, for a long time. The fencing number.
    #[track_caller]
    pub fn share(&mut self, key: impl Arg, owner: impl Arg) -> i64 {
        cmd!(self, "LOCK.ACQUIRE", key, owner, LONG, "SHARED").fence()
    }

    /// Acquires a permit that must be there to be had, for a long time. The fencing number.
    #[track_caller]
    pub fn permit(&mut self, key: impl Arg, owner: impl Arg, limit: u64) -> i64 {
        cmd!(self, "LOCK.ACQUIRE", key, owner, LONG, "LIMIT", limit).fence()
    }

    /// How this lock is held: `exclusive`, `shared` or `free`.
    #[track_caller]
    pub fn mode(&mut self, key: impl Arg) -> String {
        match cmd!(self, "LOCK.INFO", key) {
            info if info.is_nil() => "free".to_owned(),
            info => info["mode"].text(),
        }
    }

    /// The owners that hold this lock, by name.
    #[track_caller]
    pub fn sharers(&mut self, key: impl Arg) -> Vec<String> {
        let info = cmd!(self, "LOCK.INFO", key);
        if info.is_nil() {
            return Vec::new();
        }
        let holders = info["holders"].items().iter();
        let mut owners: Vec<_> = holders.map(|holder| holder["owner"].text()).collect();
        owners.sort();
        owners
    }

    /// The shares as any client of the server can see them: the owners and their deadlines.
    #[track_caller]
    pub fn shares(&mut self, key: impl Arg) -> BTreeMap<String, i64> {
        let members = cmd!(self, "ZRANGE", key, 0, -1, "WITHSCORES");
        let pairs = members.items().chunks_exact(2);
        let mut shares: BTreeMap<_, _> =
            pairs.map(|pair| (pair[0].text(), pair[1].text())).collect();
        if !shares.is_empty() {
            assert_eq!(shares.remove(MARKER).as_deref(), Some("inf"), "{members:?}");
        }
        shares.into_iter().map(|(owner, deadline)| (owner, deadline.parse().unwrap())).collect()
    }
}

impl Server {
    /// A new connection that waits for a share, already blocked.
    #[track_caller]
    pub fn reader_for(&self, key: impl Arg, owner: impl Arg) -> Client {
        self.waiter(&args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0, "SHARED"])
    }

    /// A new connection that waits for one of so many permits, already blocked.
    #[track_caller]
    pub fn permit_waiter_for(&self, key: impl Arg, owner: impl Arg, limit: u64) -> Client {
        self.waiter(&args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0, "LIMIT", limit])
    }
}
