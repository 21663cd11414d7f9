//! LOCK.LOG: why a worker has lost its lock.

mod form;
mod late;
mod reasons;

use crate::support::*;

/// No line of the log.
const NONE: [Value; 0] = [];

/// A ttl that is soon over.
const SHORT: u64 = 50;

impl Client {
    /// The log, the newest first.
    #[track_caller]
    fn log(&mut self) -> Vec<Value> {
        cmd!(self, "LOCK.LOG", 1_000).items().to_vec()
    }

    /// The one line of the log, when it is there.
    #[track_caller]
    fn only_loss(&mut self) -> Value {
        let lines = eventually_some("a loss is logged", || {
            let lines = self.log();
            (!lines.is_empty()).then_some(lines)
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines[0].clone()
    }

    /// What was counted under this name.
    #[track_caller]
    fn counted(&mut self, name: &str) -> i64 {
        let name = format!("lock_{name}_total");
        self.info("lock")[&name].parse().unwrap()
    }
}

/// It says so of the reason, the owner and the number.
#[track_caller]
fn says(line: &Value, reason: &str, owner: &str, fence: i64) {
    assert_eq!(line["reason"], reason, "{line:?}");
    assert_eq!(line["owner"], owner, "{line:?}");
    assert_eq!(line["fence"], fence, "{line:?}");
    assert_eq!(line["count"], 1, "{line:?}");
}

#[track_caller]
fn wait_until_gone(client: &mut Client, key: &str) {
    eventually("the key is gone", || cmd!(client, "EXISTS", key) == 0);
}

#[test]
fn a_replica_that_reads_its_keys_anew_from_its_master_has_lost_none() {
    let master = Server::start();
    let replica = master.replica();
    master.client().acquire("k", "a");
    replica.wait_until_in_sync_with(&master);
    let mut asking = replica.client();
    assert!(cmd!(asking, "LOCK.CHECK", "k", "a").int() > 0);
    assert_eq!(cmd!(master.client(), "DEBUG", "CHANGE-REPL-ID"), "OK");
    cmd!(master.client(), "CLIENT", "KILL", "TYPE", "replica");
    eventually("it has read everything once more", || master.info("sync_full") == "2");
    master.client().acquire("later", "a");
    replica.wait_until_in_sync_with(&master);
    assert!(cmd!(replica.client(), "LOCK.CHECK", "k", "a").int() > 0);
    assert_eq!(cmd!(replica.client(), "LOCK.LOG"), Value::Array(vec![]));
}
