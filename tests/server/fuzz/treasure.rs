//! Keys that are no locks, of every kind, some of which look much like one. Only LOCK commands touch them,
//! so they must stay as they are, byte for byte.

use crate::support::*;
use std::collections::BTreeMap;

const DATABASES: u32 = 3;

/// Where they lie; and what has no owner, though it could be a token by its form.
pub const KEYS: [&str; 9] = [
    "no:empty",
    "no:long",
    "no:list",
    "no:hash",
    "no:set",
    "no:zset",
    "no:like-ours",
    "no:stream",
    DATA,
];
pub const DATA: &str = "no:data";

pub struct Treasure(BTreeMap<(u32, &'static str), String>);

impl Treasure {
    pub fn bury(server: &Server) -> Treasure {
        let mut client = server.client();
        let mut found = BTreeMap::new();
        for db in 0..DATABASES {
            client.select(db);
            for command in [
                args!["SET", "no:empty", ""],
                args!["SET", "no:long", vec![b'x'; 1025]],
                args!["RPUSH", "no:list", "a", "b"],
                args!["HSET", "no:hash", "a", "b"],
                args!["SADD", "no:set", "a", "b"],
                args!["ZADD", "no:zset", 1, "a", 2, "b"],
                args!["ZADD", "no:like-ours", 1, "a", 9_007_199_254_740_991_i64, MARKER],
                args!["XADD", "no:stream", "1-1", "a", "b"],
                args!["SET", DATA, "worth a lot"],
            ] {
                let answer = client.run(&command);
                assert!(!answer.is_error(""), "{answer:?}");
            }
            found.extend(KEYS.map(|key| ((db, key), digest(&mut client, key))));
        }
        Treasure(found)
    }

    /// The database and the key of each that is not as it was.
    pub fn what_has_changed(&self, server: &Server) -> Vec<(u32, &'static str)> {
        let mut client = server.client();
        let mut changed = Vec::new();
        for (&(db, key), before) in &self.0 {
            client.select(db);
            if digest(&mut client, key) != *before {
                changed.push((db, key));
            }
        }
        changed
    }
}

/// Of its type, its value and its end.
fn digest(client: &mut Client, key: &str) -> String {
    let kind = cmd!(client, "TYPE", key);
    let digest = cmd!(client, "DEBUG", "DIGEST-VALUE", key);
    let end = cmd!(client, "PEXPIRETIME", key);
    format!("{kind:?} {digest:?} {end:?}")
}
