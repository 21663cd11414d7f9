//! What others have of the keys: a replica without the module, and the append-only file. Each must be
//! told of all that is done and of nothing else, in commands that it can carry out.

use crate::support::*;
use std::collections::{BTreeMap, BTreeSet};

/// Where something is said.
const DATABASES: u32 = 3;

/// The type, the value and the expiry of each key.
type Keys = BTreeMap<(u32, Vec<u8>), (String, String, i64)>;

pub struct Copies(Server);

/// A server that dies of a command from its master, or in its file, that it can't carry out.
pub fn strict(setup: Setup) -> Setup {
    setup.config("propagation-error-behavior panic")
}

/// Where a module hears of keys, Valkey 8.1.1 tells replicas of a MOVE in the wrong database.
pub fn leave_out_what_goes_wrong_without_us(server: &Server) {
    let version = server.version();
    if version.is_valkey() && version.number < (8, 2, 0) && version.number >= (8, 1, 0) {
        server.restart_as(|setup| setup.config("rename-command MOVE ''"));
    }
}

impl Copies {
    pub fn of(master: &Server) -> Copies {
        Copies(master.replica_with(strict(Setup::new().without_module())))
    }

    /// When no client says anything any more: what is not the same on the replica, or not the same when
    /// the server has started again.
    pub fn what_differs(&self, master: &Server) -> Vec<String> {
        eventually("no client waits, and nothing is left to do", || {
            let info = master.client().info("everything");
            let quiet = ["lock_memory_waiters", "lock_memory_tasks", "blocked_clients"];
            quiet.iter().all(|&field| info[field] == "0")
        });
        let Copies(replica) = self;
        let all = keys(master);
        replica.wait_until_in_sync_with(master);
        let of_replica = keys(replica);
        let refused = replica.log().contains("CRITICAL");
        master.restart();
        let of_file = keys(master);
        // What has an end by now may have ended on the way, here or there.
        let lasting = |keys: Keys| -> Keys {
            let now = now(master);
            let lasts = |end: i64| end == -1 || end > now;
            keys.into_iter().filter(|(_, key)| lasts(key.2)).collect()
        };
        let [all, of_replica, of_file] = [all, of_replica, of_file].map(lasting);
        println!("{} keys are compared", all.len());
        let mut differs = differences(&all, &of_replica, "the replica");
        differs.extend(differences(&all, &of_file, "the file"));
        differs.extend(refused.then(|| "the replica has refused a command".to_owned()));
        differs
    }
}

fn differences(all: &Keys, copy: &Keys, whose: &str) -> Vec<String> {
    let places: BTreeSet<_> = all.keys().chain(copy.keys()).collect();
    (places.into_iter())
        .filter(|place| all.get(place) != copy.get(place))
        .map(|place| {
            let (db, key) = (place.0, place.1[..place.1.len().min(60)].escape_ascii());
            let (ours, theirs) = (all.get(place), copy.get(place));
            format!("database {db}, key \"{key}\": {ours:?}, in {whose} {theirs:?}")
        })
        .collect()
}

fn keys(server: &Server) -> Keys {
    let mut client = server.client();
    let mut found = Keys::new();
    for db in 0..DATABASES {
        client.select(db);
        for key in cmd!(client, "KEYS", "*").items() {
            let key = key.bytes().to_vec();
            let answers = client.transaction(&[
                args!["TYPE", key],
                args!["DEBUG", "DIGEST-VALUE", key],
                args!["PEXPIRETIME", key],
            ]);
            let [kind, digest, end] = &answers[..] else {
                panic!("three answers: {answers:?}");
            };
            // It may have ended since.
            if *kind != "none" {
                let value = digest.items()[0].text();
                found.insert((db, key), (kind.text(), value, end.int()));
            }
        }
    }
    found
}

/// In milliseconds.
fn now(server: &Server) -> i64 {
    let time = cmd!(server.client(), "TIME");
    let part = |at: usize| -> i64 { time[at].text().parse().unwrap() };
    part(0) * 1000 + part(1) / 1000
}
